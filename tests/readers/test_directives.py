from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triage.readers.directives import directed_line

SOURCE = """\
extern "C" __global__ void main_kernel(half_t* A) {
#line 14 "/home/user/kernels/op.py"
  load(A);
#line 19 "/home/user/kernels/op.py"
  half2 a = ((half2*)A)[0];
  a.x = hpow(a.x, b.x);
  a.y = hpow(a.y, b.y);
  ((half2*)A)[0] = a;
#line 22 "/home/user/kernels/op.py"
  store(A);
#line 30 "/home/user/kernels/other.py"
  done(A);
}
""".splitlines()
FILE = "/home/user/kernels/op.py"


def test_a_later_line_of_a_statement_leads_to_its_directive() -> None:
    assert directed_line(SOURCE, FILE, 20, ["    a.x = hpow(a.x,b.x);"]) == 19


def test_the_quoted_line_decides_between_two_statements_that_fit() -> None:
    assert directed_line(SOURCE, FILE, 22, ["  ((half2*)A)[0] = a;"]) == 19
    assert directed_line(SOURCE, FILE, 22, ["  store( A );"]) == 22


def test_the_names_of_the_message_decide_where_nothing_is_quoted() -> None:
    assert directed_line(SOURCE, FILE, 22, [], 'instantiation of "void tl::store<int>::run(T)"') == 22


def test_two_statements_that_fit_alike_are_not_told_apart() -> None:
    assert directed_line(SOURCE, FILE, 22, ["argument types are: (__half, __half)"]) is None


def test_without_directives_for_the_file_the_line_stays() -> None:
    assert directed_line(SOURCE, "/home/user/kernels/third.py", 7, []) == 7
    assert directed_line([], FILE, 7, []) == 7


@given(st.lists(st.tuples(st.integers(1, 90), st.integers(1, 6)), min_size=1, max_size=8), st.data())
def test_every_quoted_line_leads_back_to_its_own_statement(
    statements: list[tuple[int, int]], data: st.DataObject
) -> None:
    source, expected = [], []
    for start, count in statements:
        source.append(f'#line {start} "{FILE}"')
        for offset in range(count):
            text = f"  s{len(source)} = {offset};"
            source.append(text)
            expected.append((start, start + offset, text))
    start, reported, text = data.draw(st.sampled_from(expected))
    assert directed_line(source, FILE, reported, [text]) == start

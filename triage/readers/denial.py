"""Whether prose says of an error that it quotes that it is not there: "we do not see `CUDA error: …` any more". Pure.

Only what stands in the error's own sentence counts, and only prose: an error text has negations of its own, and who writes "I do
not understand why I get it" has it.
"""

from __future__ import annotations

import re

#: where a sentence or a clause begins anew
_CLAUSE = re.compile(r"[.!?;:,](?=\s|$)|\b(?:but|because|although|and|so|then|now|still)\b", re.IGNORECASE)
_MET = (
    r"(?:see|saw|seen|get|gets|got|getting|have|had|has|having|observ\w+|hit|hits|hitting|encounter\w*|experienc\w+|reproduc\w+|receiv\w+|"
    r"produc\w+|rais\w+|throw\w*|threw|print\w*|show\w*|report\w*|trigger\w*|run into|find|found|fail\w*|crash\w*|die\w*|end\w*|stop\w*|give\w*)"
)
#: what, up to the error, says that it is not there
_BEFORE = re.compile(
    rf"\b(?:(?:not|never|no longer|cannot|\w+n['’]t)\s+(?:(?:even|any ?more|ever|longer)\s+)?{_MET}"
    r"|no\s+(?:(?:more|longer|such|other|further)\s+)?(?:errors?|exceptions?|crash(?:es)?|failures?|problems?|issues?|messages?|warnings?|sign of)"
    rf"|there\s+(?:is|are|was|were)\s+no|(?:is|are|was|were)\s+no|without\s+(?:any|the|this|that)|free of|(?:not|n['’]t)\s+(?:an?\s+|the\s+)?(?:duplicate|same|about|related)|instead of|rather than|used to\s+{_MET}"
    r"|(?:I|we|one)\s+(?:would\s+|had\s+|have\s+)*expect(?:ed)?|should\s+(?:have\s+)?(?:raise|throw|give|say|print|be))\b",
    re.IGNORECASE,
)
#: … unless the sentence goes on to ask or to tell when it is
_TAKEN_BACK = re.compile(r"\b(?:why|how|what|when|where|until|unless|if|only|except|but)\b", re.IGNORECASE)
#: what says so directly behind the error; followed by a condition, it tells when the error is there
_AFTER = re.compile(
    r"\W*(?:(?:which|that)\s+)?(?:(?:errors?|exceptions?|messages?|crash(?:es)?|failures?|problems?|issues?)\W+)?"
    r"(?:any ?more|any longer|no longer (?:happen|occur|appear|show|exist|there|rais|reproduc|come)\w*"
    r"|(?:(?:is|are|was|were|has|have|got|been|now|already)\s+){1,4}(?:fixed|solved|resolved|gone)"
    r"|(?:do|does|did|is|was)(?:\s+not|n['’]t)\s+(?:happen|occur|appear|seen|show|there|come back)\w*\s*(?:any ?more|any longer|now|since|$|[.!]))"
    r"(?!\W+(?:when|if|with|without|by|for|only)\b)",
    re.IGNORECASE,
)
#: … or begins with the case in which it is not there
_CONDITION = re.compile(r"\b(?:with|without|if|when|once|while)\s+\w", re.IGNORECASE)
#: … or that it is there in some cases, or is new
_UNTIL = re.compile(r"\W*(?:\w+\W+)?(?:unless|until|except|before)\b", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»"}
_QUOTED = re.compile(r"(?<!\w)[\"'`“‘«]([^\"'`“”‘’«»\n]{8,400})[\"'`”’»](?!\w)")
#: words before an error from which on it stands in prose, and not behind the prefix of a log
_PROSE = 2
_WORD = re.compile(r"[A-Za-z][a-z'’]+")


def is_denied(line: str, start: int, end: int, above: str = "") -> bool:
    """Whether `line[start:end]`, the words of an error, are said not to be there; `above` is the line before this one."""
    before, after = line[:start], line[end:]
    opening = _opening(before, after)
    if opening is not None:
        before, after = before[:opening], after.partition(_QUOTES[before[opening]])[2]
    if len(_WORD.findall(before)) < _PROSE and opening is None:
        return False
    begun = bool(before.strip()) or opening is not None
    clause = _CLAUSE.split(f"{above} {before}" if begun and _goes_on(above) else before)[-1]
    told = _BEFORE.search(clause)
    gone = _AFTER.match(after) is not None
    if told is not None and (gone or not _CONDITION.search(clause, 0, told.start())):
        return not (_TAKEN_BACK.search(clause, told.end()) or _UNTIL.match(after))
    return gone


def _opening(before: str, after: str) -> int | None:
    """Where the quotation begins that goes on to `after`; an apostrophe begins one only directly before the error."""
    last = len(before.rstrip()) - 1
    if last >= 0 and before[last] in _QUOTES:
        return last
    open_ = (q for q, closing in _QUOTES.items() if q != "'" and before.count(q) % 2 and closing in after)
    return next((before.rfind(q) for q in open_), None)


def _goes_on(above: str) -> bool:
    return bool(above.strip()) and above.rstrip()[-1] not in ".:;!?`"


def quotes_denied(line: str, above: str = "") -> bool:
    """Whether a line denies anything that it quotes."""
    return any(is_denied(line, found.start(1), found.end(1), above) for found in _QUOTED.finditer(line))

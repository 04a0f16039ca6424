"""Which errors of a script say the same whatever the values of its tensors are. Pure.

After a launch on the virtual device the results have their true shapes and types, and made-up values. An error that
values cannot bring about is a fault of the script all the same.
"""

from __future__ import annotations

import re

from triage.knowledge.match import raising_frame
from triage.model import ErrorRecord, Frame

#: what a module, a class or a tensor has is settled before any value is
ATTRIBUTE = re.compile(
    r"(partially initialized )?module '[\w.]+' has no attribute|type object '\w+' has no attribute"
    r"|'(Virtual)?Tensor' object has no attribute"
)
#: how many arguments a call passes, and by which names, is written in the call …
BINDING = re.compile(
    r"[\w.<>]+\(\) (missing \d+ required|got an unexpected keyword argument|got multiple values for"
    r"|takes (no|exactly|from|at most|at least|\d+))"
)
#: … unless it passes some by a star
STARRED = re.compile(r"[(,]\s*\*")
#: PyTorch compares shapes, ranks and types before it computes
SHAPES = re.compile(
    r"einsum\(\): |mat1 and mat2 |The size of tensor a \(|The expanded size of the tensor |shape '\[[^\]]*\]' is invalid"
    r"|Sizes of tensors must match|stack expects each tensor|shape mismatch: |size mismatch|inconsistent tensor size"
    r"|view size is not compatible|Dimension out of range|Expected size for first two dimensions|batch1 and batch2"
    r"|permute\([^)]*\): number of dim|The tensor has a non-zero number of elements, but|split_with_sizes expects"
    r"|Given (normalized_shape|groups)=|expected (m1 and m2|mat1 and mat2) to have the same dtype|expected scalar type"
    r"|self and mat2 must have the same dtype|number of dims don't match|too many indices for tensor|1D tensors expected"
    r"|The shape of the mask |only Tensors of floating point dtype|vector \+ matrix|\w+ must be (a )?\d-?D"
)
#: a key that is written out where it is looked up names a column or an option, which no tensor's value decides
LITERAL_KEY = re.compile(r"'[\w. -]+'")
TORCH = re.compile(r"/torch/.*\.py$")


def is_independent(error: ErrorRecord) -> bool:
    """Whether no value of a tensor could have kept the error from being raised on its line."""
    frame = raising_frame(error)
    if frame is None:
        return False
    match error.type:
        case "AttributeError":
            return ATTRIBUTE.match(error.message) is not None
        case "KeyError":
            return bool(
                frame.user and LITERAL_KEY.fullmatch(error.message) and f"[{error.message}]" in _one_quote(frame)
            )
        case "TypeError":
            return bool(frame.user and BINDING.match(error.message) and frame.text and not STARRED.search(frame.text))
    return is_about_shapes(error)


def is_about_shapes(error: ErrorRecord) -> bool:
    """Whether PyTorch refused shapes or types; they are real on the virtual device, too."""
    frame = raising_frame(error)
    raised = frame is not None and (frame.user is True or _of_torch(frame))
    return raised and error.type in ("RuntimeError", "IndexError", "ValueError") and bool(SHAPES.match(error.message))


def _one_quote(frame: Frame) -> str:
    return frame.text.replace('"', "'")


def _of_torch(frame: Frame) -> bool:
    return TORCH.search(frame.file.replace("\\", "/")) is not None

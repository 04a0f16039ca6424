"""The script's floating-point arithmetic once more in float64, so that a reference can be held against what it should be.

Every operator of PyTorch on floating-point tensors is also run on their *shadows*: tensors in float64 that hold what would be
there if no operator had rounded. Ints and bools, and with them every index, mask and condition, are shared with the script.

What has no shadow of its own is a *leaf*, and stands for its value exactly: random and constant tensors, what came from NumPy
or from a file, and whatever a kernel was given or has written. So a reference in float64 reads the inputs as the kernel reads
them. For the same reason a cast that the script writes rounds the shadow where it makes new, coarser data: where the type is
narrower than every type that the value comes from. Quantized inputs and emulated roundings of a kernel stay as they are
written. A cast back to a type that the value came from is only how a result is stored (float16 inputs, a float32 sum, a float16
result); it rounds nothing, and so does none that autocast made. Neither TF32 nor the order of atomics matters in float64.

Shadows belong to memory, not to tensors: views share them. Memory that somebody else wrote (another thread, NumPy, an
extension) is found out by its fingerprint and becomes a leaf. Where an operator has no float64, chooses by values, or would go
above the limit of bytes, what it makes is unknown, and all that follows from it.

`mode.py` follows the script, `memory.py` keeps the shadows, `operators.py` knows the operators, `measure.py` says how far two
sides of a comparison are off; `values.py` has what all of them need.
"""

from .mode import Shadow

__all__ = ["Shadow"]

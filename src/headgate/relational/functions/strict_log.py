"""Logarithms to the last digit as Java's StrictMath has them, which are those of Sun's fdlibm.

Other libraries round better or worse, and a quotient of two logarithms, as Spark has it for other bases,
would be several units off in the last place. A number is 2**k * (1 + f), and log(1 + f) comes from a
polynomial of f / (2 + f).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from headgate.relational.functions.kernels import Floats

_LN2_HIGH: Final = 6.93147180369123816490e-01
_LN2_LOW: Final = 1.90821492927058770002e-10
_ODD: Final = (
    6.666666666666735130e-01,
    2.857142874366239149e-01,
    1.818357216161805012e-01,
    1.479819860511658591e-01,
)
_EVEN: Final = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)
_LOG10_E: Final = 4.34294481903251816668e-01
_LOG10_2_HIGH: Final = 3.01029995663611771306e-01
_LOG10_2_LOW: Final = 3.69423907715893078616e-13
_SMALLEST: Final = 2.0**-1022
_MANTISSA: Final = 2**52 - 1
_ONE: Final = 1023 << 52


def strict_log(values: Floats) -> Floats:
    """Return natural logarithms of doubles above 0; infinity and NaN stay what they are."""
    exponent, high, mantissa = _parts(values)
    # The mantissa is taken between about 0.7 and 1.4, so that log(1 + f) is small.
    upper = (high + 0x95F64) & 0x100000
    number = (mantissa | ((upper.astype(np.int64) ^ 0x3FF00000) << 32)).view(np.float64)
    k = (exponent + (upper >> 20)).astype(np.float64)
    f = number - 1.0
    near = f * f * (0.5 - 0.33333333333333333 * f)
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (_EVEN[0] + w * (_EVEN[1] + w * _EVEN[2]))
    odd = z * (_ODD[0] + w * (_ODD[1] + w * (_ODD[2] + w * _ODD[3])))
    rest = odd + even
    half = 0.5 * f * f
    wide = half - (s * (half + rest) + k * _LN2_LOW)
    plain = s * (f - rest) - k * _LN2_LOW
    middle = ((high - 0x6147A) | (0x6B851 - high)) > 0
    tail = np.where((0xFFFFF & (2 + high)) < 3, near - k * _LN2_LOW, np.where(middle, wide, plain))
    found = k * _LN2_HIGH - (tail - f)
    return np.where(np.isfinite(values), found, values)


def strict_log10(values: Floats) -> Floats:
    """Return decimal logarithms of doubles above 0; infinity and NaN stay what they are."""
    exponent, _, mantissa = _parts(values)
    below = (exponent < 0).astype(np.int64)
    number = (mantissa | (_ONE - (below << 52))).view(np.float64)
    k = (exponent + below).astype(np.float64)
    found = k * _LOG10_2_LOW + _LOG10_E * strict_log(number) + k * _LOG10_2_HIGH
    return np.where(np.isfinite(values), found, values)


def _parts(values: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    # Exponents, the upper 20 bits of the mantissas, and the mantissas.
    small = values < _SMALLEST
    bits = np.where(small, values * 2.0**54, values).view(np.int64)
    exponent = ((bits >> 52) & 0x7FF) - 1023 - np.where(small, 54, 0)
    return exponent, (bits >> 32) & 0xFFFFF, bits & _MANTISSA

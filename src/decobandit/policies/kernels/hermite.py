"""Fifth-degree interpolation between two levels, from values and two derivatives at both.

At v = v_0 + s h, 0 <= s <= 1, the polynomial that has x, x', x'' at v_0 and at v_0 + h in common
with x(v). Its error is s^3 (1-s)^3 h^6 / 720 times the sixth derivative of x somewhere in between.
"""

from ...support.kernels.compiled import compiled


@compiled
def interpolate(left, right, s, h, out):
    """out (states,): states of left and right (at least as many, 3) at v_0 + s h."""
    u, cube = 1.0 - s, s * s * s
    w_0 = cube * (1.0 + u * (3.0 + 6.0 * u))  # that of the left value is 1 - w_0
    w_1 = u * u * u * s * (1.0 + 3.0 * s) * h
    w_2 = u * u * u * s * s * 0.5 * h * h
    w_3 = -cube * u * (1.0 + 3.0 * u) * h
    w_4 = cube * u * u * 0.5 * h * h
    for i in range(out.size):
        out[i] = (
            left[i, 0]
            + w_0 * (right[i, 0] - left[i, 0])  # exact where they are equal: no index above 1
            + (w_1 * left[i, 1] + w_3 * right[i, 1])
            + (w_2 * left[i, 2] + w_4 * right[i, 2])
        )

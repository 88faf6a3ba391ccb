"""Compiled loops. They see arrays and scalars only; numba is imported in folders of this name only.

Notations, the same in every file here
    T         number of stages (the deployment, if any, is the last of them)
    t         stage, 0..T-1
    n, g      pulls of one arm and good outcomes among them, 0 <= g <= n <= t
    p         (alpha + g) / (alpha + beta + n), posterior probability of a good outcome
    mu (T,)   price of a pull at each stage
    V         value of the one-arm problem, triangular slab: state (n, g) at n(n+1)/2 + g
    index     expected reward + value of information of a pull, eq. (ucblike)
"""

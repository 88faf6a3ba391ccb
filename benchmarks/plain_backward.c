/* One arm at given prices, backward in time, over every state: what a plain loop can do.

   V_t(n, g) = V_{t+1}(n, g) + (index - mu_t)^+ on one slab, (n, g) at n(n+1)/2 + g. Ascending n: row
   n + 1 is still at stage t + 1 when row n is rewritten. */

void backward(int T, double alpha, double beta, const double *good, const double *bad,
              const double *mu, double *V)
{
    for (int t = T - 1; t >= 0; t--) {
        double spread = good[t] - bad[t], loss = bad[t] - mu[t];
        for (int n = 0; n <= t; n++) {
            double *restrict own = V + (long)n * (n + 1) / 2;
            const double *restrict next = own + n + 1;
            double inverse = 1.0 / (alpha + beta + n);
            for (int g = 0; g <= n; g++) {
                double p = (alpha + g) * inverse;
                double gain = loss + next[g] - own[g] + p * (spread + next[g + 1] - next[g]);
                own[g] += gain > 0.0 ? gain : 0.0;
            }
        }
    }
}

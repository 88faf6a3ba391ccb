/* Two uniform arms, one pull per stage: the optimal policy, and what it does at given success
   probabilities. What a plain program does that has the optimum by backward recursion and carries
   the first two moments of the good outcomes at the truth along; ties are split by halves.

   State (n1, g1, g2) with n2 = pulls - n1, at (n1 * size + g1) * size + g2. V: optimum under the
   priors; M, S: mean and mean square of the good outcomes to come, at the truth. */

#include <math.h>
#include <stdlib.h>

static void pulled(double p, double q, double good_v, double bad_v, double good_m, double bad_m,
                   double good_s, double bad_s, double *v, double *m, double *s)
{
    *v = p * (1.0 + good_v) + (1.0 - p) * bad_v;
    *m = q * (1.0 + good_m) + (1.0 - q) * bad_m;
    *s = q * (1.0 + 2.0 * good_m + good_s) + (1.0 - q) * bad_s;
}

void two_arm_design(int T, double q1, double q2, double *out)
{
    long size = T + 2, all = size * size * size;
    double *V = calloc(all, sizeof *V), *M = calloc(all, sizeof *M), *S = calloc(all, sizeof *S);
    for (int pulls = T - 1; pulls >= 0; pulls--) {
        for (int n1 = 0; n1 <= pulls; n1++) {
            int n2 = pulls - n1;
            for (int g1 = 0; g1 <= n1; g1++) {
                /* row n1 is rewritten before row n1 + 1, which is still one pull later; within a
                   row g2 + 1 is read before it is written */
                long own = (n1 * size + g1) * size, next = ((n1 + 1) * size + g1) * size;
                double p1 = (g1 + 1.0) / (n1 + 2.0);
                for (int g2 = 0; g2 <= n2; g2++) {
                    double p2 = (g2 + 1.0) / (n2 + 2.0), v[2], m[2], s[2];
                    pulled(p1, q1, V[next + size + g2], V[next + g2], M[next + size + g2],
                           M[next + g2], S[next + size + g2], S[next + g2], v, m, s);
                    pulled(p2, q2, V[own + g2 + 1], V[own + g2], M[own + g2 + 1], M[own + g2],
                           S[own + g2 + 1], S[own + g2], v + 1, m + 1, s + 1);
                    double share = fabs(v[0] - v[1]) < 1e-12 ? 0.5 : v[0] > v[1];
                    V[own + g2] = fmax(v[0], v[1]);
                    M[own + g2] = share * m[0] + (1.0 - share) * m[1];
                    S[own + g2] = share * s[0] + (1.0 - share) * s[1];
                }
            }
        }
    }
    out[0] = V[0];
    out[1] = M[0];
    out[2] = S[0] - M[0] * M[0];
    free(V);
    free(M);
    free(S);
}

/* Elementary functions and draws from distributions, made from additions, multiplications, divisions and square roots
 * alone, so that what is drawn is the same on every machine; good to a few units in the last place. */
#ifndef LEAT_PREP_DEVIATE_H
#define LEAT_PREP_DEVIATE_H

#include "base/random.h"

double leat_prep_exp(double x);
double leat_prep_ln(double x); /* x > 0 */
void leat_prep_sincos(double degrees, double *sine, double *cosine);

double leat_prep_normal(struct leat_rng *draws);
double leat_prep_gamma(struct leat_rng *draws, double shape); /* shape > 0 */

/* n weights that add up to 1, Dirichlet's distribution with all parameters alike; with 2, the first is Beta's. */
void leat_prep_dirichlet(struct leat_rng *draws, double alpha, unsigned n, double *out);

#endif

/* SPDX-License-Identifier: MIT
 * A layer in a program in C: what it has, one step of gradient descent, the same on threads of this program, and what
 * an error looks like. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "moa.h"

enum { width = 16, head_width = 8, sequences = 2, length = 12, tokens = sequences * length, threads = 2 };

/** Ends the program if a call failed. */
static void check(headmix_status status) {
  if (status == HEADMIX_OK) return;
  fprintf(stderr, "status %d: %s\n", (int)status, moa_last_error());
  exit(EXIT_FAILURE);
}

/** What a pass works on: the objective is the sum of dy y, and two losses of the router. */
struct step {
  moa* layer;
  float x[tokens * width], dy[tokens * width], y[tokens * width], dx[tokens * width];
  double objective;
};
static double const loss_weights[] = {0.01, 0.001};

static headmix_status forward_and_backward(void* data) {
  // [readme]
  struct step* const s = data;
  headmix_status status = moa_zero_gradients(s->layer);
  if (status == HEADMIX_OK) status = moa_forward(s->layer, s->x, tokens, sequences, NULL, s->y);
  if (status == HEADMIX_OK) status = moa_backward(s->layer, s->dy, loss_weights, 2, s->dx);
  // [/readme]
  s->objective = 0;
  for (size_t i = 0; status == HEADMIX_OK && i < moa_loss_count(s->layer); ++i) {
    double loss = 0;
    status = moa_loss(s->layer, i, &loss);
    s->objective += loss_weights[i] * loss;
  }
  for (int i = 0; i < tokens * width; ++i) s->objective += (double)s->dy[i] * (double)s->y[i];
  return status;
}

/** What every thread of the host does. */
static void* second_thread(void* data) {
  struct step* const s = data;
  check(moa_run(s->layer, 1, threads, forward_and_backward, s));
  return NULL;
}

int main(void) {
  static struct step s;
  ptrdiff_t const sizes[] = {width, head_width};
  check(moa_create(&s.layer, /*seed*/ 1, threads, sizes, 2));
  for (int i = 0; i < tokens * width; ++i) {
    s.x[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    s.dy[i] = (float)(i * 53 % 97) / 4800.0f - 0.01f;
  }
  check(forward_and_backward(&s)); /* on this thread */
  double const before = s.objective;

  for (size_t i = 0; i < moa_parameter_count(s.layer); ++i) {
    moa_parameter p;
    check(moa_get_parameter(s.layer, i, &p));
    printf("%s [%td, %td, %td]\n", p.name, p.count, p.rows, p.cols);
    for (ptrdiff_t j = 0; j < p.count * p.rows * p.cols; ++j) p.value[j] -= 0.1f * p.gradient[j];
  }

  pthread_t other;
  if (pthread_create(&other, NULL, second_thread, &s) != 0) {
    fputs("c_interface: cannot start a thread\n", stderr);
    return EXIT_FAILURE;
  }
  check(moa_run(s.layer, 0, threads, forward_and_backward, &s)); /* on both */
  if (pthread_join(other, NULL) != 0) return EXIT_FAILURE;
  printf("objective %.6f, after one step of gradient descent %.6f\n", before, s.objective);

  moa* none = NULL;
  headmix_status const without_sizes = moa_create(&none, 1, 1, NULL, 0);
  printf("status %d: %s\n", (int)without_sizes, moa_last_error());
  headmix_status const uneven = moa_forward(s.layer, s.x, tokens, 5, NULL, s.y);
  printf("status %d: %s\n", (int)uneven, moa_last_error());
  headmix_status const no_layer = moa_backward(none, s.dy, NULL, 0, NULL);
  printf("status %d: %s\n", (int)no_layer, moa_last_error());

  moa_destroy(s.layer);
  moa_destroy(none);
  int const refused = without_sizes == HEADMIX_BAD_INPUT && uneven == HEADMIX_BAD_INPUT &&
                      no_layer == HEADMIX_BAD_INPUT && none == NULL;
  return s.objective < before && refused ? EXIT_SUCCESS : EXIT_FAILURE;
}

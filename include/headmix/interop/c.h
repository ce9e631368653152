/* SPDX-License-Identifier: MIT */
/** @file
 * @addtogroup interop
 * @{
 * A layer for programs in C. A header that both sides include declares the functions of one layer,
 *
 * @code
 * #include <headmix/interop/c.h>
 * HEADMIX_C_DECLARE(moa, float)
 * @endcode
 *
 * one unit in C++ defines them for a layer and a backend (headmix/interop/c.hpp),
 *
 * @code
 * HEADMIX_C_LAYER(moa, Layer, Backend)
 * @endcode
 *
 * and C calls moa_create(), moa_forward(), ... No exception leaves a function: those that can fail return a status,
 * and moa_last_error() has the text. One thread at a time may use a layer. Memory is allocated by moa_create() and by
 * the first pass of a larger shape than before, and freed by moa_destroy().
 */
#ifndef HEADMIX_INTEROP_C_H
#define HEADMIX_INTEROP_C_H

#include <stddef.h>
#include <stdint.h>

/** Marks functions that a shared library exports, also with -fvisibility=hidden. Define it before this header to
 * change the marks. */
#ifndef HEADMIX_C_EXPORT
#if defined(_WIN32)
#define HEADMIX_C_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define HEADMIX_C_EXPORT __attribute__((visibility("default")))
#else
#define HEADMIX_C_EXPORT
#endif
#endif

/** Precedes a function that C calls. */
#ifdef __cplusplus
#define HEADMIX_C_API extern "C" HEADMIX_C_EXPORT
#else
#define HEADMIX_C_API extern HEADMIX_C_EXPORT
#endif

/** The result of a call. */
typedef enum headmix_status {
  HEADMIX_OK = 0,
  HEADMIX_BAD_INPUT = 1, /**< sizes, shapes or pointers that do not fit; the layer can still be used */
  HEADMIX_NO_MEMORY = 2, /**< an allocation failed; the layer can still be used */
  HEADMIX_FAILED = 3     /**< another exception of C++ */
} headmix_status;

/**
 * Declares, for a layer `prefix` of numbers `scalar` (float or double):
 *
 * - `prefix`: the layer, an opaque type, and `prefix_parameter`: one of its weights.
 * - `prefix_create`: a layer with random weights of `seed`, on `threads` threads (1 for a backend without threads),
 *   with the dynamic sizes in the order of the C++ side (NULL and 0 without any).
 * - `prefix_destroy`: also of NULL.
 * - `prefix_last_error`: the text of the latest error of the calling thread; "" before the first one.
 * - `prefix_input_width`, `prefix_output_width`: columns of x and of y.
 * - `prefix_parameter_count`, `prefix_get_parameter`: names, shapes and memory of weights, valid until
 *   `prefix_destroy`: a stack of `count` contiguous matrices [rows, cols], and a gradient of the same shape that
 *   backward passes add to.
 * - `prefix_forward`: writes y [tokens, output width] of x [tokens, input width]. x has `sequences` sequences: sequence b
 *   is rows offsets[b] .. offsets[b + 1] - 1; if offsets is NULL, all have equal length. x must not change until
 *   the backward pass.
 * - `prefix_backward`: with the objective sum(dy y) + sum of loss_weights[i] loss i, adds the gradients of the weights
 *   to their memory, and writes the gradient of x to dx unless it is NULL. One loss weight per loss, or none.
 * - `prefix_zero_gradients`: zeros the gradients of weights.
 * - `prefix_loss_count`, `prefix_loss`: losses of the latest forward pass, e.g. of the router.
 * - `prefix_run`: for backends on headmix::host_threads. All `nth` threads of the host call it with ith = 0, 1, ...; it
 *   calls pass(data) on thread 0, and forward and backward passes inside run on all threads. Every thread returns the
 *   status of pass.
 */
#define HEADMIX_C_DECLARE(prefix, scalar)                                                                              \
  typedef struct prefix prefix;                                                                                        \
  typedef struct prefix##_parameter {                                                                                  \
    char const* name;                                                                                                  \
    scalar* value;                                                                                                     \
    scalar* gradient;                                                                                                  \
    ptrdiff_t count, rows, cols;                                                                                       \
  } prefix##_parameter;                                                                                                \
  HEADMIX_C_API headmix_status prefix##_create(prefix** layer, uint64_t seed, ptrdiff_t threads,                       \
                                               ptrdiff_t const* sizes, size_t number_of_sizes);                        \
  HEADMIX_C_API void prefix##_destroy(prefix* layer);                                                                  \
  HEADMIX_C_API char const* prefix##_last_error(void);                                                                 \
  HEADMIX_C_API ptrdiff_t prefix##_input_width(prefix const* layer);                                                   \
  HEADMIX_C_API ptrdiff_t prefix##_output_width(prefix const* layer);                                                  \
  HEADMIX_C_API size_t prefix##_parameter_count(prefix const* layer);                                                  \
  HEADMIX_C_API headmix_status prefix##_get_parameter(prefix const* layer, size_t which, prefix##_parameter* result);  \
  HEADMIX_C_API headmix_status prefix##_forward(prefix* layer, scalar const* x, ptrdiff_t tokens, ptrdiff_t sequences, \
                                                int32_t const* offsets, scalar* y);                                    \
  HEADMIX_C_API headmix_status prefix##_backward(prefix* layer, scalar const* dy, double const* loss_weights,          \
                                                 size_t number_of_weights, scalar* dx);                                \
  HEADMIX_C_API headmix_status prefix##_zero_gradients(prefix* layer);                                                 \
  HEADMIX_C_API size_t prefix##_loss_count(prefix const* layer);                                                       \
  HEADMIX_C_API headmix_status prefix##_loss(prefix const* layer, size_t which, double* result);                       \
  HEADMIX_C_API headmix_status prefix##_run(prefix* layer, ptrdiff_t ith, ptrdiff_t nth,                               \
                                            headmix_status (*pass)(void* data), void* data);

/** @} */
#endif

// SPDX-License-Identifier: MIT
// headmix.hpp compiles after macros of other headers, and leaves them unchanged.
#include <complex.h>
#include <termios.h>

#ifndef I  // complex.h, which defines it with -std=gnu++20
#define I _Complex_I
#endif
#define slots  // Qt
#define emit
#define foreach(variable, list) for (variable : list)
#define check(x) ((void)(x))  // AssertMacros.h
#define verify(x) ((void)(x))
#define require(x, label) ((void)(x))
#define E 2.718  // constants of a program
#define PI 3.14159
#define Status int  // Xlib.h
#define Bool int
#define None 0L
#define True 1
#define Always 2
#define word int  // Arduino
#define sq(x) ((x) * (x))
#define bit(b) (1UL << (b))
#define HIGH 1
#define OUTPUT 1
#define near  // windows.h
#define far
#define small char

#include <headmix/headmix.hpp>
#include <headmix/io/checkpoint.hpp>
#include <headmix/io/published.hpp>
#include <headmix/layer/data_parallel.hpp>

#if !defined(slots) || !defined(emit) || !defined(check) || !defined(E) || !defined(word) || !defined(I)
#error "headmix.hpp took a macro away"
#endif
static_assert(E == 2.718, "a macro is what it was");

headmix::Module<headmix::Moa<8, 4, headmix::SoftmaxTopK<4, 2>>, headmix::Cpu<float>> module_of_one_layer(1);

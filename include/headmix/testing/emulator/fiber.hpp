#pragma once
// SPDX-License-Identifier: MIT
// Cooperative stacks on one host thread: each thread of an emulated block runs on one.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "headmix/core/error.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define HEADMIX_EMULATOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEADMIX_EMULATOR_ASAN 1
#endif
#endif
#ifndef HEADMIX_EMULATOR_ASAN
#define HEADMIX_EMULATOR_ASAN 0
#endif

// Define it as 1 to use ucontext instead of assembly: a switch then costs system calls.
#ifndef HEADMIX_EMULATOR_UCONTEXT
#if defined(__x86_64__) && !defined(__ILP32__)
#define HEADMIX_EMULATOR_UCONTEXT 0
#else
#define HEADMIX_EMULATOR_UCONTEXT 1
#endif
#endif
#if HEADMIX_EMULATOR_UCONTEXT
#include <ucontext.h>
#endif

#if HEADMIX_EMULATOR_ASAN
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack_save, void const* bottom, std::size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack_save, void const** bottom_old, std::size_t* size_old);
void __asan_unpoison_memory_region(void const volatile* address, std::size_t size);
void __asan_poison_memory_region(void const volatile* address, std::size_t size);
}
#endif

namespace headmix::cuda_kernels::emulator {

/// Memory whose use a sanitizer reports, until it is allowed again.
inline void poison_memory([[maybe_unused]] void const* begin, [[maybe_unused]] std::size_t bytes) {
#if HEADMIX_EMULATOR_ASAN
  __asan_poison_memory_region(begin, bytes);
#endif
}
inline void unpoison_memory([[maybe_unused]] void const* begin, [[maybe_unused]] std::size_t bytes) {
#if HEADMIX_EMULATOR_ASAN
  __asan_unpoison_memory_region(begin, bytes);
#endif
}

#if !HEADMIX_EMULATOR_UCONTEXT
/// Saves the callee-saved registers (System V), stores the stack pointer in *from and continues at `to`.
[[gnu::naked, gnu::noinline]] inline void switch_stack(void** /*from*/, void* /*to*/) {
  __asm__(
      "pushq %rbp\n\t"
      "pushq %rbx\n\t"
      "pushq %r12\n\t"
      "pushq %r13\n\t"
      "pushq %r14\n\t"
      "pushq %r15\n\t"
      "movq %rsp, (%rdi)\n\t"
      "movq %rsi, %rsp\n\t"
      "popq %r15\n\t"
      "popq %r14\n\t"
      "popq %r13\n\t"
      "popq %r12\n\t"
      "popq %rbx\n\t"
      "popq %rbp\n\t"
      "ret");
}
#endif

/// A stack and its saved position. A fiber that was never prepared represents the host's stack.
class fiber {
 public:
  fiber() = default;
  fiber(fiber const&) = delete;
  fiber& operator=(fiber const&) = delete;
  ~fiber() {
    if (stack_) ::munmap(stack_, whole_bytes_);
  }

  /// The next switch to it calls entry(argument), which must never return. The previous content of the stack is
  /// discarded.
  void prepare(void (*entry)(void*), void* argument) {
    if (!stack_) allocate();
    unpoison_memory(bottom_, bytes_);
    entry_ = entry;
    argument_ = argument;
#if HEADMIX_EMULATOR_UCONTEXT
    ::getcontext(&context_);
    context_.uc_stack.ss_sp = bottom_;
    context_.uc_stack.ss_size = bytes_;
    context_.uc_link = nullptr;
    ::makecontext(&context_, &fiber::enter, 0);
#else
    // The content that switch_stack pops: six registers, the entry, and a null return address, which ends backtraces.
    void (*const start)() = &fiber::enter;
    auto* const top = reinterpret_cast<std::uintptr_t*>(static_cast<std::byte*>(bottom_) + bytes_);
    for (int i = 1; i <= 8; ++i) top[-i] = 0;
    top[-2] = reinterpret_cast<std::uintptr_t>(start);
    stack_pointer_ = top - 8;
#endif
  }

  /// Continues at `to`; returns at the switch back. `last`: there is no switch back.
  static void switch_stacks(fiber& from, fiber& to, [[maybe_unused]] bool last) {
    left_ = &from;
    arrived_ = &to;
#if HEADMIX_EMULATOR_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack_, to.bottom_, to.bytes_);
#endif
#if HEADMIX_EMULATOR_UCONTEXT
    ::swapcontext(&from.context_, &to.context_);
#else
    switch_stack(&from.stack_pointer_, to.stack_pointer_);
#endif
    arrive(from);
  }

 private:
  static void arrive([[maybe_unused]] fiber& self) {
#if HEADMIX_EMULATOR_ASAN
    // Reports the bounds of the previous stack: the only way to learn those of the host.
    void const* bottom = nullptr;
    __sanitizer_finish_switch_fiber(self.fake_stack_, &bottom, &left_->bytes_);
    left_->bottom_ = const_cast<void*>(bottom);
#endif
  }
  static void enter() {
    fiber& self = *arrived_;
#if HEADMIX_EMULATOR_ASAN
    self.fake_stack_ = nullptr;
#endif
    arrive(self);
    self.entry_(self.argument_);
    __builtin_unreachable();
  }
  void allocate() {
    auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::size_t const bytes = HEADMIX_EMULATOR_ASAN ? 1u << 20 : 1u << 18;
    void* const whole = ::mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (whole == MAP_FAILED) fail("Emulated: no memory for the stack of a thread");
    ::mprotect(whole, page, PROT_NONE);  // guard page against overflows into another stack
    stack_ = whole;
    whole_bytes_ = bytes + page;
    bottom_ = static_cast<std::byte*>(whole) + page;
    bytes_ = bytes;
  }

  inline static thread_local fiber* left_ = nullptr;
  inline static thread_local fiber* arrived_ = nullptr;

  void* stack_ = nullptr;
  std::size_t whole_bytes_ = 0;
  void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
#if HEADMIX_EMULATOR_UCONTEXT
  ucontext_t context_{};
#else
  void* stack_pointer_ = nullptr;
#endif
#if HEADMIX_EMULATOR_ASAN
  void* fake_stack_ = nullptr;
#endif
};

}  // namespace headmix::cuda_kernels::emulator

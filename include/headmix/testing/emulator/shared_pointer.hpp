#pragma once
// SPDX-License-Identifier: MIT
// Pointers into the shared memory of an emulated block.

#include <compare>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "headmix/testing/emulator/machine.hpp"

namespace headmix::cuda_kernels::emulator {

template <class T>
class shared_pointer;

/// The result of p[i]: converts to T when its value is used, and cannot be a variable (`auto x = p[i]` would read later
/// than on a device).
template <class T>
class shared_reference {
 public:
  using value = std::remove_const_t<T>;

  shared_reference(shared_reference const&) = delete;

  operator value() && { return read(); }
  /// For a T of class type: the conversion to a number that T has.
  template <class U>
  requires(std::is_class_v<value>&& std::is_arithmetic_v<U>&& std::is_constructible_v<U, value>) explicit
  operator U() && {
    return static_cast<U>(read());
  }

  value operator=(value const& v) {
    write(v);
    return v;
  }
  value operator=(shared_reference&& other) { return *this = other.read(); }
  template <class U>
  value operator=(shared_reference<U>&& other) {
    return *this = static_cast<value>(other.read());
  }
  template <class U>
  value operator+=(U const& v) {
    return *this = static_cast<value>(read() + value_of(v));
  }
  template <class U>
  value operator-=(U const& v) {
    return *this = static_cast<value>(read() - value_of(v));
  }
  template <class U>
  value operator*=(U const& v) {
    return *this = static_cast<value>(read() * value_of(v));
  }
  template <class U>
  value operator/=(U const& v) {
    return *this = static_cast<value>(read() / value_of(v));
  }
  template <class U>
  value operator|=(U const& v) {
    return *this = static_cast<value>(read() | value_of(v));
  }
  template <class U>
  value operator&=(U const& v) {
    return *this = static_cast<value>(read() & value_of(v));
  }
  value operator++() { return *this += value(1); }
  value operator--() { return *this -= value(1); }
  value operator++(int) {
    value const before = read();
    *this = static_cast<value>(before + value(1));
    return before;
  }
  shared_pointer<T> operator&() const { return pointer_; }

 private:
  friend class shared_pointer<T>;
  template <class U>
  friend class shared_reference;

  template <class U>
  static U const& value_of(U const& v) {
    return v;
  }
  template <class U>
  static auto value_of(shared_reference<U> const& v) {
    return v.read();
  }
  explicit shared_reference(shared_pointer<T> p) : pointer_(p) {}
  [[nodiscard]] value read() const {
    value v;
    std::memcpy(static_cast<void*>(&v), pointer_.access(false), sizeof(T));
    return v;
  }
  void write(value const& v) const {
    static_assert(!std::is_const_v<T>, "write through a pointer to const");
    std::memcpy(pointer_.access(true), &v, sizeof(T));
  }

  shared_pointer<T> pointer_;
};

/// A thread's pointer to a T in shared memory. Accesses are checked, pointer arithmetic is not.
template <class T>
class shared_pointer {
  static_assert(std::is_trivially_copyable_v<T>, "headmix: shared memory holds what can be copied as bytes");

 public:
  shared_pointer() = default;
  shared_pointer(machine& m, int thread, Index offset) : machine_(&m), thread_(thread), offset_(offset) {}
  template <class U>
  requires(!std::is_const_v<U> && std::is_same_v<T, U const>) shared_pointer(shared_pointer<U> p)
      : machine_(p.machine_), thread_(p.thread_), offset_(p.offset_) {}

  shared_reference<T> operator*() const { return shared_reference<T>(*this); }
  shared_reference<T> operator[](Index i) const { return shared_reference<T>(*this + i); }

  shared_pointer& operator+=(Index n) {
    offset_ += n * Index{sizeof(T)};
    return *this;
  }
  shared_pointer& operator-=(Index n) { return *this += -n; }
  shared_pointer& operator++() { return *this += 1; }
  shared_pointer& operator--() { return *this -= 1; }
  shared_pointer operator++(int) {
    shared_pointer const before = *this;
    ++*this;
    return before;
  }
  friend shared_pointer operator+(shared_pointer p, Index n) { return p += n; }
  friend shared_pointer operator+(Index n, shared_pointer p) { return p += n; }
  friend shared_pointer operator-(shared_pointer p, Index n) { return p -= n; }
  friend Index operator-(shared_pointer p, shared_pointer q) { return (p.offset_ - q.offset_) / Index{sizeof(T)}; }
  friend bool operator==(shared_pointer p, shared_pointer q) { return p.offset_ == q.offset_; }
  friend auto operator<=>(shared_pointer p, shared_pointer q) { return p.offset_ <=> q.offset_; }

  /// The offset from the beginning of shared memory, in bytes.
  [[nodiscard]] Index offset() const { return offset_; }

 private:
  friend class shared_reference<T>;
  template <class U>
  friend class shared_pointer;

  [[nodiscard]] std::byte* access(bool write) const {
    return machine_->shared(thread_, offset_, static_cast<int>(sizeof(T)), static_cast<int>(alignof(T)), write);
  }

  machine* machine_ = nullptr;
  int thread_ = 0;
  Index offset_ = 0;
};

}  // namespace headmix::cuda_kernels::emulator

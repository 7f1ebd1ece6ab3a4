// Users take turns at what one of them could keep busy for all: of each so many requests are under way, the others wait in
// their order.
//
// Invariants
//   U1 of one user at most `at_once` are under way.
//   U2 who waits is called as soon as one before it ends, and gives up if its time has passed by then.
//
// Threads: the environment's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "base/assert.h"
#include "control/env.h"

namespace ocm::control {

class Turns {
 public:
  Turns(Env& env, size_t at_once) : env_(env), at_once_(at_once) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Holds a place as long as it lives; it may outlive these turns.
  using Turn = std::shared_ptr<void>;
  /// Null: `give_up_ns` has passed.
  Task<Turn> take(uint32_t uid, uint64_t give_up_ns) {
    User& user = (*users_)[uid];
    if (user.running < at_once_) {
      ++user.running;
      OCM_DASSERT(user.running <= at_once_);  // U1
    } else {
      OCM_DASSERT(user.running == at_once_);  // U2: there is no place
      const auto waiter = std::make_shared<Waiter>(env_);
      user.waiting.push_back(waiter);
      while (!waiter->is_called) co_await waiter->signal.wait();
    }
    Turn turn(users_.get(), [of = std::weak_ptr(users_), uid](void*) {
      if (const auto users = of.lock()) end(*users, uid);
    });
    if (env_.now_ns() >= give_up_ns) turn.reset();
    co_return turn;
  }
  size_t running(uint32_t uid) const {
    const auto user = users_->find(uid);
    return user == users_->end() ? 0 : user->second.running;
  }

 private:
  struct Waiter {
    explicit Waiter(Env& env) : signal(env) {}
    Signal signal;
    bool is_called = false;
  };
  struct User {
    size_t running = 0;
    std::deque<std::shared_ptr<Waiter>> waiting;
  };
  using Users = std::unordered_map<uint32_t, User>;

  static void end(Users& users, uint32_t uid) {
    const auto user = users.find(uid);
    OCM_DASSERT(user != users.end() && user->second.running > 0);
    if (!user->second.waiting.empty()) {  // takes its place
      OCM_DASSERT(!user->second.waiting.front()->is_called);
      user->second.waiting.front()->is_called = true;
      user->second.waiting.front()->signal.notify();
      user->second.waiting.pop_front();
    } else if (--user->second.running == 0) {
      users.erase(user);
    }
  }

  Env& env_;
  const size_t at_once_;
  const std::shared_ptr<Users> users_ = std::make_shared<Users>();
};

}  // namespace ocm::control

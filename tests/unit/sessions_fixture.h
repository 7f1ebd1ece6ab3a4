// One run of a daemon, as far as the sessions of its programs go.
#pragma once

#include <string>
#include <string_view>

#include "control/loop.h"
#include "node/sessions.h"

namespace ocm::node {

struct SessionsRun {
  explicit SessionsRun(std::string_view token = "token") : core(config(), loop), sessions(with(token)) {}
  /// Of a new session.
  static wire::SessionHello hello() {
    wire::SessionHello out;
    out.set_version(wire::kControlVersions.max);
    return out;
  }
  /// Of one that was opened in a former run.
  static wire::SessionHello hello(const SessionId& id, const std::string& key) {
    wire::SessionHello out = hello();
    out.set_resume_session(id_field(id));
    out.set_resume_key(key);
    return out;
  }

  control::Loop loop{0};
  Core core;
  Sessions sessions;

 private:
  static Config config() {
    Config out;
    out.name = "a";
    out.sessions = 16;
    return out;
  }
  Core& with(std::string_view token) {
    core.token = std::move(os::Secret::copy(os::bytes_of(token))).value();
    return core;
  }
};

}  // namespace ocm::node

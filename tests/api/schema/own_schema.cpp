// A program with protobuf, a control.proto and a catalogue.proto of its own, linked with liboncilla: neither ends the other.
#include <oncilla/oncilla.h>

#include <cstdio>

#include "catalogue.pb.h"
#include "control.pb.h"

int main() {
  its_own::Envelope written, read;
  written.set_text("its own");
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  options.flags = OCM_SESSION_EMBEDDED;
  options.embedded_bytes = uint64_t{8} << 20;
  ocm_session* session = nullptr;
  if (ocm_session_open(&options, &session) != OCM_OK || ocm_session_close(session) != OCM_OK) {
    std::fprintf(stderr, "%s\n", ocm_last_error());
    return 1;
  }
  if (!read.ParseFromString(written.SerializeAsString()) || read.text() != written.text()) return 2;
  return its_own::Envelope::descriptor()->full_name() == "its_own.Envelope" &&
                 its_own::Field::descriptor()->full_name() == "its_own.Field"
             ? 0
             : 3;
}

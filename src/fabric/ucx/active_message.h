// Sending and receiving a Message as one UCX active message. Included by .cpp files of this folder only.
#pragma once

#include "fabric/ucx/message.h"
#include "fabric/ucx/ucp_table.h"

namespace ocm::fabric::ucx {

/// Sends a copy of `message`; lost silently if the endpoint is: who waits for an answer has a deadline.
void send_message(ucp_ep_h endpoint, const Message& message);

/// Gets every well-formed message of a worker, on the thread that progresses it. `reply_to` may be null and
/// is valid during the call.
using MessageHandler = void (*)(void* self, const Message& message, ucp_ep_h reply_to);

/// Binds worker, handler and `self`; lives as long as the worker.
struct MessageSink {
  void* self = nullptr;
  MessageHandler handler = nullptr;
  Status listen(Worker& worker);
};

}  // namespace ocm::fabric::ucx

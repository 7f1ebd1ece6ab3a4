#include "fabric/ucx/active_message.h"

#include <cstring>

namespace ocm::fabric::ucx {
namespace {

constexpr unsigned kActiveMessageId = 0x4F;

void sent(void* request, ucs_status_t, void* buffer) {
  delete static_cast<std::string*>(buffer);
  ucp().ucp_request_free(request);
}

ucs_status_t received(void* argument, const void*, size_t, void* data, size_t length,
                      const ucp_am_recv_param_t* param) {
  auto* sink = static_cast<MessageSink*>(argument);
  // A rendezvous announces what is not here: refused by not fetching it.
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 || length > kMessageBytesMax) return UCS_OK;
  Result<Message> message = decode({static_cast<const std::byte*>(data), length});
  if (!message.is_ok()) return UCS_OK;
  ucp_ep_h reply_to = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0 ? param->reply_ep : nullptr;
  sink->handler(sink->self, *message, reply_to);
  return UCS_OK;
}

}  // namespace

void send_message(ucp_ep_h endpoint, const Message& message) {
  auto buffer = std::make_unique<std::string>(encode(message));
  ucp_request_param_t param;
  std::memset(&param, 0, sizeof param);
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = &sent;
  param.user_data = buffer.get();
  param.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
  ucs_status_ptr_t request =
      ucp().ucp_am_send_nbx(endpoint, kActiveMessageId, nullptr, 0, buffer->data(), buffer->size(), &param);
  if (UCS_PTR_IS_PTR(request)) (void)buffer.release();  // sent() frees it
}

Status MessageSink::listen(Worker& worker) {
  ucp_am_handler_param_t param;
  std::memset(&param, 0, sizeof param);
  param.field_mask =
      UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = kActiveMessageId;
  param.cb = &received;
  param.arg = this;
  const ucs_status_t status = ucp().ucp_worker_set_am_recv_handler(worker.get(), &param);
  return status == UCS_OK ? Status::ok() : from_ucs(status, "active messages");
}

}  // namespace ocm::fabric::ucx

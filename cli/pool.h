// `ocm pool`: durable pools in a file or on a block device, without a daemon. What its commands share.
#pragma once

#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/json_output.h"
#include "memory/nvme/offline.h"

namespace ocm::cli {
namespace nvme = memory::nvme;

void add_pool_check(Command& group);
void add_pool_explain(Command& group);

/// 16 hexadecimal digits.
std::string pool_name(const nvme::Identity& identity);
/// "the cluster 0123456789abcdef...", or "no cluster's yet".
std::string owner_text(const nvme::Identity& identity);
/// "3 pages", "1 page".
std::string counted(uint64_t count, const char* what);

}  // namespace ocm::cli

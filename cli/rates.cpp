#include "cli/rates.h"

#include <string.h>

#include <algorithm>
#include <cstdio>

#include "base/units.h"
#include "cli/placement.h"
#include "cli/raw_loop.h"
#include "os/clock.h"
#include "tools/output.h"
#include "tools/session.h"
#include "tools/signals.h"

namespace ocm::cli {
namespace {

constexpr uint64_t kSampleNs = 20'000;  // operations are timed in batches of about this, or one by one
constexpr size_t kSamplesMin = 5;
constexpr int kCappedBufferBytes = 128 * 1024;

/// Repeats `operation` for about the budget and gives the median, least and greatest of its batches.
template <class Operation>
Result<Rate> measure(const char* what, const char* direction, uint64_t bytes, uint64_t budget_ns,
                     Operation&& operation) {
  uint64_t batch = 1;
  for (int warm_up = 0; warm_up < 32; ++warm_up) {  // also finds how many operations fill a sample
    const uint64_t start = os::now_ns();
    for (uint64_t i = 0; i < batch; ++i) OCM_TRY(operation());
    const uint64_t taken = os::now_ns() - start;
    if (taken >= kSampleNs) {
      if (warm_up > 2 || taken > budget_ns / 4) break;
      continue;
    }
    batch *= 2;
  }
  std::vector<double> samples;
  const os::Deadline end = os::Deadline::after_ns(budget_ns);
  while (samples.size() < kSamplesMin || !end.passed()) {
    OCM_TRY(check_interrupt());
    const uint64_t start = os::now_ns();
    for (uint64_t i = 0; i < batch; ++i) OCM_TRY(operation());
    samples.push_back(static_cast<double>(os::now_ns() - start) / static_cast<double>(batch));
  }
  std::sort(samples.begin(), samples.end());
  return Rate{what,
              direction,
              bytes,
              samples[samples.size() / 2],
              samples.front(),
              samples.back(),
              batch * samples.size()};
}

std::vector<std::byte> touched(uint64_t bytes) { return std::vector<std::byte>(bytes, std::byte{1}); }

uint64_t largest(const std::vector<uint64_t>& sizes) { return *std::max_element(sizes.begin(), sizes.end()); }

void keep_faster(std::vector<Rate>& rates, const std::vector<Rate>& others) {
  for (size_t i = 0; i < rates.size() && i < others.size(); ++i) {
    if (others[i].ns_median < rates[i].ns_median) rates[i] = others[i];
  }
}

Result<std::vector<Rate>> measure_raw_with(const std::vector<uint64_t>& sizes, uint64_t budget_ns,
                                           int buffer_bytes) {
  OCM_TRY_ASSIGN(auto loop, RawLoop::start(largest(sizes), buffer_bytes));
  std::vector<std::byte> buffer = touched(largest(sizes));
  std::vector<Rate> rates;
  for (const uint64_t bytes : sizes) {
    OCM_TRY_ASSIGN(Rate put, measure("raw tcp", "put", bytes, budget_ns,
                                     [&] { return loop->put(buffer.data(), bytes); }));
    OCM_TRY_ASSIGN(Rate get, measure("raw tcp", "get", bytes, budget_ns,
                                     [&] { return loop->get(buffer.data(), bytes); }));
    rates.push_back(std::move(put));
    rates.push_back(std::move(get));
  }
  return rates;
}

Result<bool> has_other_nodes(ocm_session* session) {
  OCM_TRY_ASSIGN(const auto nodes, list_nodes(session));
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const ocm_node_info& node) { return !node.self && node.state == OCM_NODE_ALIVE; });
}

using Cell = std::string (*)(const Rate&);

void print_table(const char* title, const std::vector<Rate>& rates, Cell cell) {
  std::vector<std::string> columns, headers{">" + std::string(title)};
  std::vector<uint64_t> sizes;
  for (const Rate& rate : rates) {
    const std::string column = rate.what + (rate.direction == "copy" ? "" : " " + rate.direction);
    if (std::find(columns.begin(), columns.end(), column) == columns.end()) {
      columns.push_back(column);
      headers.push_back(">" + column);
    }
    if (std::find(sizes.begin(), sizes.end(), rate.bytes) == sizes.end()) sizes.push_back(rate.bytes);
  }
  Table table(headers);
  for (const uint64_t bytes : sizes) {
    std::vector<std::string> cells{format_bytes(bytes)};
    for (const std::string& column : columns) {
      std::string text = "-";
      for (const Rate& rate : rates) {
        const std::string name = rate.what + (rate.direction == "copy" ? "" : " " + rate.direction);
        if (rate.bytes == bytes && name == column) text = cell(rate);
      }
      cells.push_back(text);
    }
    table.add(std::move(cells));
  }
  table.print();
}

}  // namespace

Result<std::vector<Rate>> measure_memcpy(const std::vector<uint64_t>& sizes, uint64_t budget_ns) {
  std::vector<std::byte> source = touched(largest(sizes)), target = touched(largest(sizes));
  std::vector<Rate> rates;
  for (const uint64_t bytes : sizes) {
    OCM_TRY_ASSIGN(Rate rate, measure("memcpy", "copy", bytes, budget_ns, [&] {
                     memcpy(target.data(), source.data(), bytes);
                     asm volatile("" : : "r"(target.data()) : "memory");  // the copy is not left out
                     return Status::ok();
                   }));
    rates.push_back(std::move(rate));
  }
  return rates;
}

Result<std::vector<Rate>> measure_raw(const std::vector<uint64_t>& sizes, uint64_t budget_ns) {
  OCM_TRY_ASSIGN(std::vector<Rate> rates, measure_raw_with(sizes, budget_ns / 2, 0));
  OCM_TRY_ASSIGN(const std::vector<Rate> capped, measure_raw_with(sizes, budget_ns / 2, kCappedBufferBytes));
  keep_faster(rates, capped);
  return rates;
}

Result<std::vector<Rate>> measure_fabric(ocm_session* session, const std::string& fabric,
                                         const std::vector<uint64_t>& sizes, uint64_t budget_ns) {
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.fabric = fabric_of(fabric);
  OCM_TRY_ASSIGN(const bool others, has_other_nodes(session));
  ocm_allocation* made = nullptr;
  const auto make = [&](uint32_t where) {
    options.flags = OCM_ALLOCATION_DEDICATED | where;
    return ocm_allocation_create(session, largest(sizes), &options, &made);
  };
  int created = make(others ? OCM_ALLOCATION_REMOTE : OCM_ALLOCATION_LOCAL);
  if (others && created == OCM_UNSUPPORTED) created = make(OCM_ALLOCATION_LOCAL);  // it reaches no other node
  OCM_TRY(checked(created));
  const Allocation allocation(made);
  std::vector<std::byte> buffer = touched(largest(sizes));
  OCM_TRY(checked(ocm_put(made, 0, buffer.data(), buffer.size())));  // its pages are there from now on
  std::vector<Rate> rates;
  for (const uint64_t bytes : sizes) {
    auto put = [&] {
      const int result = ocm_put(made, 0, buffer.data(), bytes);
      return result == 0 ? Status::ok() : checked(result);
    };
    auto get = [&] {
      const int result = ocm_get(made, 0, buffer.data(), bytes);
      return result == 0 ? Status::ok() : checked(result);
    };
    OCM_TRY_ASSIGN(Rate put_rate, measure(fabric.c_str(), "put", bytes, budget_ns, put));
    OCM_TRY_ASSIGN(Rate get_rate, measure(fabric.c_str(), "get", bytes, budget_ns, get));
    rates.push_back(std::move(put_rate));
    rates.push_back(std::move(get_rate));
  }
  return rates;
}

void print_rates(const std::vector<Rate>& rates) {
  print_table("TIME", rates, [](const Rate& rate) { return format_ns(rate.ns_median); });
  std::printf("\n");
  print_table("RATE", rates, [](const Rate& rate) { return format_rate(rate.bytes_per_second()); });
}

}  // namespace ocm::cli

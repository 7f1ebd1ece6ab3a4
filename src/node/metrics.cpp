#include "node/metrics.h"

#include <bit>
#include <cstdio>

#include "base/assert.h"

namespace ocm::node {

void Histogram::add(uint64_t ns) {
  const uint64_t us = ns / 1000;
  const int bucket = us <= 1 ? 0 : std::bit_width(us - 1);
  OCM_DASSERT(bucket >= 0);
  ++counts_[static_cast<size_t>(bucket < kBuckets ? bucket : kBuckets)];
  sum_ns_ += ns;
  ++count_;
}

void Histogram::print(std::string& out, std::string_view name, std::string_view labels) const {
  const std::string start(name);
  const std::string with(labels);
  uint64_t below = 0;
  char number[32];
  for (int i = 0; i < kBuckets; ++i) {
    below += counts_[static_cast<size_t>(i)];
    std::snprintf(number, sizeof(number), "%g", static_cast<double>(uint64_t{1} << i) / 1e6);
    out += start + "_bucket{" + with + ",le=\"" + number + "\"} " + std::to_string(below) + "\n";
  }
  OCM_DASSERT(below + counts_[kBuckets] == count_);
  out += start + "_bucket{" + with + ",le=\"+Inf\"} " + std::to_string(count_) + "\n";
  std::snprintf(number, sizeof(number), "%.9f", static_cast<double>(sum_ns_) / 1e9);
  out += start + "_sum{" + with + "} " + number + "\n";
  out += start + "_count{" + with + "} " + std::to_string(count_) + "\n";
}

void Metrics::request(std::string_view name, uint64_t ns, int code) {
  auto it = requests.find(name);
  if (it == requests.end()) it = requests.emplace(std::string(name), Histogram{}).first;
  it->second.add(ns);
  if (code != 0) ++errors[code];
}

}  // namespace ocm::node

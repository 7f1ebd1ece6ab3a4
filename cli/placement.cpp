#include "cli/placement.h"

#include <charconv>

#include "base/ids.h"

namespace ocm::cli {
namespace {

/// The index of the value whose name it is; the options accept no other.
template <class Enum>
Enum named(const std::string& name, const char* (*name_of)(Enum), int last) {
  for (int i = 0; i <= last; ++i) {
    if (name == name_of(static_cast<Enum>(i))) return static_cast<Enum>(i);
  }
  return static_cast<Enum>(0);
}

}  // namespace

ocm_fabric fabric_of(const std::string& name) { return static_cast<ocm_fabric>(fabric_named(name)); }

void Placement::add_to(Command& command) {
  std::vector<std::string> fabrics = offered_fabrics();
  fabrics.insert(fabrics.begin(), fabric_name(Fabric::kAny));
  std::vector<std::string> kinds;
  for (const KindName& one : kKinds) {
    if (one.offered) kinds.emplace_back(one.name);
  }
  command
      .choice("-l,--layout", layout, {"single", "striped", "replicated"},
              "How its bytes are spread over extents")
      .number("-e,--extents", extents, 0, 4096, "Stripes or replicas; 0: one for each node, or 2 replicas")
      .bytes("--chunk", chunk_bytes, "Contiguous bytes per stripe, a multiple of 64; 0: 1 MiB")
      .texts("--nodes", nodes, "NODE,NODE", "Equal shares on these nodes; none: the cluster chooses")
      .choice("-k,--kind", kind, kinds, "The kind of memory; default: dram, or nvme with --durable")
      .flag("--durable", durable, "It outlives its daemons, on nodes that have a pool (ocm pool)")
      .flag("--coherent", coherent, "Any node may cache pages of it, and all see one memory")
      .choice("--fabric", fabric, fabrics, "How this program accesses it")
      .text("-m,--mode", mode, "OCTAL", "Who may read (4) and write (2): owner 0600, others 0006");
}

Result<uint32_t> Placement::mode_bits() const {
  uint32_t bits = 0;
  const auto [end, error] = std::from_chars(mode.data(), mode.data() + mode.size(), bits, 8);
  if (error != std::errc() || end != mode.data() + mode.size() || (bits & ~0606u) != 0) {
    return Status(Code::kInvalidArgument, "--mode " + mode +
                                              " is not one of 0600 (owner only), 0604 (others read) and 0606 "
                                              "(others read and write) or their parts");
  }
  return bits;
}

Kind Placement::kind_asked() const {
  const KindName* asked = find_kind(kind);
  if (asked != nullptr) return asked->kind;
  return durable ? kDurableKind : kDefaultKind;
}

ocm_allocation_options Placement::options(std::vector<const char*>& pointers) const {
  pointers.clear();
  for (const std::string& node : nodes) pointers.push_back(node.c_str());
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.kind = static_cast<ocm_kind>(kind_asked());
  options.layout = static_cast<ocm_layout>(named(layout, layout_name, 2));
  options.extents = extents;
  options.chunk_bytes = chunk_bytes;
  options.nodes = pointers.empty() ? nullptr : pointers.data();
  options.nodes_count = pointers.size();
  options.fabric = fabric_of(fabric);
  options.flags = OCM_ALLOCATION_DEDICATED;  // a published allocation is never a piece of a slab
  if (durable) options.flags |= OCM_ALLOCATION_DURABLE;
  if (coherent) options.flags |= OCM_ALLOCATION_COHERENT;
  return options;
}

std::string mode_text(uint32_t mode) {
  std::string text = "----";
  if ((mode & 0400) != 0) text[0] = 'r';
  if ((mode & 0200) != 0) text[1] = 'w';
  if ((mode & 0004) != 0) text[2] = 'r';
  if ((mode & 0002) != 0) text[3] = 'w';
  return text;
}

}  // namespace ocm::cli

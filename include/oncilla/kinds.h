/* The kinds of memory that there are, a line each. Beside its folder src/memory/NAME this is all that names one: numbers and
 * names of the C API, of messages, configuration, tools and statistics come from here.
 *
 *   X(CONSTANT, Name, name, number, offered, built, lasts)
 *
 * number: OCM_KIND_CONSTANT, on the wire too: 0 to 15, for good, and never another one's.
 * offered: 1 to programs and users; 0 in tests only.
 * built: 1 where the kind has its folder; 0 where its number is reserved: nodes of this build offer none.
 * lasts: 1 where nodes may keep it beyond their run (OCM_ALLOCATION_DURABLE). */
#ifndef ONCILLA_KINDS_H
#define ONCILLA_KINDS_H

/* clang-format off */
#define OCM_KINDS(X)            \
  X(DRAM, Dram, dram,  0, 1, 1, 0) \
  X(NVME, Nvme, nvme,  1, 1, 1, 1) \
  X(GPU,  Gpu,  gpu,   2, 1, 0, 0) \
  X(TEST, Test, test, 15, 0, 0, 0)
/* clang-format on */

#define OCM_KIND_CONSTANT(CONSTANT, Name, name, number, offered, built, lasts) OCM_KIND_##CONSTANT = number,

#endif

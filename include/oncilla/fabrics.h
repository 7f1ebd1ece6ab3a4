/* The fabrics that there are, a line each. Beside its folder src/fabric/NAME this is all that names one: numbers and names
 * of the C API, of messages, configuration, tools and statistics come from here.
 *
 *   X(CONSTANT, Name, name, number, offered)
 *
 * number: OCM_FABRIC_CONSTANT, on the wire too: 1 to 31, for good, and never another one's.
 * offered: 1 to programs and users; 0 inside one process only, for tests. */
#ifndef ONCILLA_FABRICS_H
#define ONCILLA_FABRICS_H

/* clang-format off */
#define OCM_FABRICS(X)      \
  X(SHM,  Shm,  shm,  1, 1) \
  X(TCP,  Tcp,  tcp,  2, 1) \
  X(UCX,  Ucx,  ucx,  3, 1) \
  X(FAKE, Fake, fake, 4, 0)
/* clang-format on */

#define OCM_FABRIC_CONSTANT(CONSTANT, Name, name, number, offered) OCM_FABRIC_##CONSTANT = number,

#endif

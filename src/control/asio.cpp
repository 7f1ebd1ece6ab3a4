// Asio's own code, compiled once (ASIO_SEPARATE_COMPILATION): as inline functions it is three seconds of each file that
// includes a part of it.
#include <asio/impl/src.hpp>

// Descriptors 0, 1 and 2 of this program: they are there, and what could not be written to 1 is known.
#pragma once

namespace ocm::cli {

/// Gives each of 0, 1 and 2 that is closed a file that reads nothing and takes nothing, so that no socket gets
/// its number; and lets `stdout` wait where descriptor 1 does not block. Before anything is opened or printed.
void open_standard_streams();
/// Writes what `stdout` holds. True if all of the output was written since the start; otherwise tells why not
/// on stderr.
bool finish_output();

}  // namespace ocm::cli

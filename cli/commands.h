// The commands, one file each: NAME.cpp declares the options of `ocm NAME` and runs it. Of a group, GROUP_NAME.cpp.
#pragma once

#include "cli/command.h"

namespace ocm::cli {

void add_up(CommandLine& line);
void add_down(CommandLine& line);
void add_status(CommandLine& line);
void add_stop_check(CommandLine& line);
void add_top(CommandLine& line);
void add_alloc(CommandLine& line);
void add_ls(CommandLine& line);
void add_rm(CommandLine& line);
void add_put(CommandLine& line);
void add_get(CommandLine& line);
void add_bench(CommandLine& line);
void add_doctor(CommandLine& line);
void add_pool(CommandLine& line);
void add_demo(CommandLine& line);
void add_cache(CommandLine& line);
void add_cluster(CommandLine& line);
void add_completion(CommandLine& line);

}  // namespace ocm::cli

// Schedules that once broke a promise, with the cluster of world.h: what is done is given, and what delays
// and random numbers there are follows from the seed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/fault.h"

namespace ocm::simulation {

/// What else than promises a run of a schedule shows.
struct Outcome {
  std::set<fault::State> reached;
  uint64_t digest = 0;  // the same for the same seed
};
struct Schedule {
  const char* name;
  /// What did not hold, a line each. `broken`: rules that do not hold in this cluster. `outcome`: null,
  /// or added to.
  std::string (*run)(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome);
  uint64_t seeds;
};
const std::vector<Schedule>& schedules_of_sessions();
const std::vector<Schedule>& schedules_of_replicas();
const std::vector<Schedule>& schedules_of_names();
const std::vector<Schedule>& schedules_of_holds();
const std::vector<Schedule>& schedules_of_reports();
const std::vector<Schedule>& schedules_of_losses();
const std::vector<Schedule>& schedules_of_spares();
const std::vector<Schedule>& schedules_of_succession();
const std::vector<Schedule>& schedules_of_stops();
const std::vector<Schedule>& schedules_of_events();
const std::vector<Schedule>& schedules_of_notes();
/// All of them.
const std::vector<Schedule>& schedules();

}  // namespace ocm::simulation

#include "control/remake.h"

#include "base/mutation.h"

namespace ocm::control {

void Remake::done(uint64_t changed_bytes) {
  switch (step_) {
    case Step::kReserve: step_ = Step::kCopy; break;
    case Step::kCopy: step_ = Step::kCompare; break;
    case Step::kCompare:
      if (frozen_) {
        step_ = OCM_MUTATION("switch-before-give")      ? Step::kSwitch
                : OCM_MUTATION("give-without-deciding") ? Step::kGive
                                                        : Step::kDecide;
      } else if (changed_bytes <= kLittleBytes || ++rounds_ >= kRoundsMax) {
        step_ = OCM_MUTATION("give-without-freeze") ? Step::kGive : Step::kFreeze;
      }
      break;
    case Step::kFreeze:
      frozen_ = true;
      step_ = OCM_MUTATION("freeze-without-compare") ? Step::kGive : Step::kCompare;
      break;
    case Step::kDecide:
      may_be_given_ = true;
      step_ = Step::kGive;
      break;
    case Step::kGive:
      may_be_given_ = given_ = true;
      step_ = switched_ ? Step::kDone : Step::kSwitch;
      break;
    case Step::kSwitch:
      switched_ = true;
      frozen_ = false;
      step_ = given_ ? Step::kDone : Step::kGive;
      break;
    case Step::kThaw:
      frozen_ = false;
      step_ = OCM_MUTATION("no-release") ? Step::kOver : Step::kRelease;
      break;
    case Step::kRelease: step_ = Step::kOver; break;
    case Step::kDone:
    case Step::kOver: break;
  }
}

void Remake::failed() {
  switch (step_) {
    case Step::kGive:
      may_be_given_ = true;
      if (!switched_) step_ = OCM_MUTATION("thaw-after-give") ? Step::kThaw : Step::kSwitch;
      break;
    case Step::kReserve:
    case Step::kCopy:
    case Step::kCompare:
    case Step::kFreeze:
    case Step::kDecide:
      if (OCM_MUTATION("give-after-failed-copy") && step_ == Step::kCopy) {
        step_ = Step::kCompare;
      } else if (OCM_MUTATION("give-after-failed-compare") && step_ == Step::kCompare && frozen_) {
        step_ = Step::kGive;
      } else {
        step_ = is_frozen() && !OCM_MUTATION("failed-freeze-stays") ? Step::kThaw : Step::kRelease;
      }
      break;
    case Step::kRelease:
      if (OCM_MUTATION("release-once")) step_ = Step::kOver;
      break;
    default: break;  // until it is done
  }
}

void Remake::freed() {
  if (switched_ || step_ == Step::kOver || OCM_MUTATION("freed-goes-on")) return;
  frozen_ = false;
  step_ = Step::kRelease;
}

void Remake::unwanted() {
  if (step_ != Step::kGive) return;
  step_ = switched_ ? Step::kDone : may_be_given_ ? Step::kSwitch : Step::kThaw;
}

void Remake::spare_is_gone() {
  if (step_ == Step::kGive && switched_) step_ = Step::kDone;
  if (step_ == Step::kRelease && !OCM_MUTATION("release-to-nobody")) step_ = Step::kOver;
}

}  // namespace ocm::control

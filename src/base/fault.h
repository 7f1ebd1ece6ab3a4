// Places in production code where a test may let something fail, break a rule on purpose, or see that a rare
// state was reached. Off, each costs one relaxed load; none stands on the way of bytes.
//
//   if (fault::at(fault::Point::kHomeNoMemory)) return Code::kNoMemory;   // as the system would
//   fault::reached(fault::State::kUndoRepeated);                          // a simulation must come here
//
// Mutations are what a simulation must find: each breaks one rule of a protocol.
// Threads: install() before others run; a hook is called by whoever comes to a place.
#pragma once

#include <atomic>
#include <cstdint>
#include <iterator>

#include "base/assert.h"

namespace ocm::fault {

#define OCM_FAULT_POINTS(X)                                                                                  \
  X(kHomeNoMemory, "home.no_memory")       /* an extent cannot be made */                                    \
  X(kHomeNoFds, "home.no_fds")             /* nor can its descriptor */                                      \
  X(kSessionNoFds, "session.no_fds")       /* a session's tables cannot be made or shared */                 \
  X(kPeerNoFds, "peer.no_fds")             /* another daemon cannot be dialled */                            \
  X(kServeNoMemory, "serve.no_memory")     /* an extent cannot be mapped to be served */                     \
  X(kVoterDiskFull, "voter.disk_full")     /* what a voter knows cannot be saved */                          \
  X(kHandlerThrows, "handler.throws")      /* who answers a request has a fault of its own */                \
  X(kHelloNoMemory, "data.no_memory")      /* a data connection cannot be served */                          \
  X(kSmallReports, "names.small_reports")  /* a home tells each of its names in a message of its own */      \
  X(kCouncilUnsealed, "mutation.unsealed") /* Q4: a council acts without sealing the former */               \
  X(kCouncilForgets, "mutation.forgets")   /* Q4: what the former knew is lost */                            \
  X(kLeaseTooLong, "mutation.lease_long")  /* Q2: a home counts its lease twice as long */                   \
  X(kDropIgnored, "mutation.drop_ignored") /* Q1: a lost replica is not freed */                             \
  X(kSealedByOneRun, "mutation.one_run")   /* S4: a later run cannot finish what one began */                \
  X(kVoterStays, "mutation.voter_stays")   /* Q7: a former voter refuses what follows a lone one */          \
  X(kSealsUnreached, "mutation.seals_few") /* E3: a council is asked for its end by who may not reach it */  \
  X(kShrinksAlone, "mutation.alone")       /* E1: who is cut off takes all others for dead */                \
  X(kLostByOne, "mutation.lost_by_one")    /* Q1: one voter's word is enough */                              \
  X(kDoubtStays, "mutation.doubt")         /* R10: a loss that was accepted and not learned stays so */      \
  X(kRemovedForgotten, "mutation.removed") /* N2: a removed name comes back */                               \
  X(kHomeForgetsRemoval,                                                                                     \
    "mutation.home_forgets")               /* N2: a name that one home has freed comes back from another */  \
  X(kUnnameNotTold, "mutation.unname")     /* N7: a name stays of which its program was never told */        \
  X(kFenceOpen, "mutation.fence")          /* G2: what was given up is applied after what came later */      \
  X(kHoldIgnored, "mutation.hold_ignored") /* L4: a name's end frees what is held */                         \
  X(kLateResumeTaken, "mutation.late_resume") /* P2: a session that ended begins again at a home */          \
  X(kHelloEnds, "mutation.hello")             /* P5: a hello in vain ends the session */                     \
  X(kUnclaimedStay, "mutation.unclaimed")     /* P6: what a program does not have stays its own */           \
  X(kUnknownIsGone, "mutation.unknown")       /* P2: what a node out of view has is taken for gone */        \
  X(kEndNotRepeated, "mutation.end_once")     /* P2: a session's end is told once */                         \
  X(kResumeNotNoted, "mutation.not_noted")    /* P2: who did not answer a resumption is not told the end */  \
  X(kDrainEnds, "mutation.drain_ends")        /* P1: who is told to stop ends its sessions elsewhere */      \
  X(kUndoNotRepeated, "mutation.undo_once")   /* a failed publish is undone where it is heard */             \
  X(kUndoByName, "mutation.undo_by_name")     /* a failed publish takes another's name */                    \
  X(kRemoveByName, "mutation.remove_by_name") /* a late removal takes another's name */                      \
  X(kOrphansStay, "mutation.orphans_stay")    /* L2: a dead daemon's extents stay */                         \
  X(kOrphanNotAsked, "mutation.orphan_asked") /* L2: a session that goes on is taken for ended */            \
  X(kOrphansNotTold, "mutation.orphans_told") /* G1: its daemon does not hear that it has less */            \
  X(kMissingStay, "mutation.missing")         /* G1: nor does its next run */                                \
  X(kFrozenForSilence, "mutation.silence")    /* A6: a home that lives is frozen for a silent one */         \
  X(kReserveNotUndone, "mutation.reserve")    /* an extent made too late stays */                            \
  X(kCopyNotChecked, "mutation.copy")         /* C3: a copy takes bytes without a lease */                   \
  X(kFormerNotAsked, "mutation.former")       /* R9: a replica of a part that was made again is given up */  \
  X(kEpochOfAnotherRun, "mutation.epoch")     /* A3: a new run of the coordinator counts like the former */  \
  X(kVacanciesStay, "mutation.vacant")        /* a part that was made again without room stays short */      \
  X(kReplicaNotFrozen, "mutation.freeze")     /* M1: programs write while the last is copied */              \
  X(kFrozenNotCompared, "mutation.compare")   /* M2: what was written meanwhile is missed */                 \
  X(kHoldsStay, "mutation.holds_stay")        /* L4: what is made again is held by nobody there */           \
  X(kNobodysServed, "mutation.served")        /* L7: what nobody has any more is served until it is freed */ \
  X(kNobodysStay, "mutation.nobodys")         /* L7: nor is it freed */                                      \
  X(kOldPartServed, "mutation.old_part")      /* M3: the former part goes on beside the new one */           \
  X(kVoterComesBack, "mutation.comes_back")   /* Q8: a voter votes again where it forgot what it promised */ \
  X(kSeatStolen, "mutation.seat")             /* E2 of seat.h: a vote is given while another's runs */       \
  X(kNamesNotAwaited, "mutation.names")       /* C3: a new coordinator answers before it knows */            \
  X(kOwnNamesForgotten, "mutation.own_names") /* C3: nor does it know its own home's */                      \
  X(kSealedStays, "mutation.sealed")          /* E5 of seat.h: who promised in vain never votes again */     \
  X(kLoneFoundsAtOnce, "mutation.lone")    /* P2 of quorum.h: who voted alone does not ask what followed */  \
  X(kLoneFollowsItself, "mutation.lonely") /* P5: who voted alone goes by the council of its former run */   \
  X(kNotAskedAgain, "mutation.not_asked")  /* A3: what a lone voter decided is not asked of its next run */  \
  X(kGivesFirst, "mutation.gives_first")   /* a part waits for the homes of another one that are silent */   \
  X(kNotTaughtAgain, "mutation.taught")    /* P4: voters wait for a council that its maker did not tell */   \
  X(kGoneIsAwaited, "mutation.gone")       /* P6: nor is one over whose only voter is gone */                \
  X(kFormerStays, "mutation.former_stays") /* P6: its next run goes by the council before */                 \
  X(kNoWitness, "mutation.no_witness")     /* R12: one that just died is counted on */                       \
  X(kEndNotTold, "mutation.end_not_told") /* R11: a home ends that voters count on for the loss of others */ \
  X(kMemoryOfLosses,                                                                                         \
    "mutation.memory") /* Q9: a voter is remembered without what it decided about replicas */                \
  X(kChangesForgotten, "mutation.changes") /* Q9: nor with what it decided since all was saved */            \
  X(kHomeGoesBack,                                                                                           \
    "mutation.home_goes_back") /* Q8: a former run is as old as what this run's home heard of */             \
  X(kSeatTooEarly,                                                                                           \
    "mutation.seat_early") /* P4: who could not install its council keeps others from its seat */            \
  X(kVotersNotAsked,                                                                                         \
    "mutation.voters_not_asked")          /* P2: who founds does not ask who votes with its former run */    \
  X(kSilentStays, "mutation.silent")      /* a connection on which nothing comes is kept after a cut */      \
  X(kLostIsCopy, "mutation.lost_is_copy") /* S4: a stop counts on what its home heard is lost */             \
  X(kNeverStands, "mutation.stands")      /* who waits in its stop never takes the seat */                   \
  X(kDoubtLeft, "mutation.doubt_left")    /* R11: a home ends with a loss that few accepted */               \
  X(kNewsOfOne, "mutation.news")          /* N9: a home that did not lead does not tell of a name's part */  \
  X(kHalfANameTaken, "mutation.half")     /* N7: a name that one home reports is taken for whole */          \
  X(kLateGoneNotMissed,                                                                                      \
    "mutation.late_gone")                 /* a new replica that is gone after the switch is not missed */    \
  X(kPlannedNotFreed, "mutation.planned") /* a replica's end frees nothing of what follows it */             \
  X(kPlanThrownAway, "mutation.thrown") /* M12: a plan is void as soon as its home that leads seems dead */  \
  X(kGivenUpStays,                                                                                           \
    "mutation.given_up") /* P7 of node/quorum.h: who was not asked waits for the council of before */        \
  X(kWatchAskedOnce, "mutation.watch_once") /* V1: a daemon names an extent once, heard or not */            \
  X(kOverToldOnce, "mutation.over_once")    /* V1: nor is it told twice */                                   \
  X(kEventsForgotten, "mutation.events")    /* U1 of event_queue.h: what was given is taken for received */  \
  X(kNotesNotHanded, "mutation.notes")      /* K2: voters hand no notes to the next council */               \
  X(kNotedByOne, "mutation.noted")          /* E4: one voter that noted it is enough */                      \
  X(kUndoneNoteForgotten,                                                                                    \
    "mutation.undone_note")           /* N10: a noted name is free once its publish was undone */            \
  X(kFoundsBeside, "mutation.beside") /* who is told to found asks nobody */

#define OCM_FAULT_STATES(X)                                                                      \
  X(kReserveUndone, "an extent was made and its maker had given up")                             \
  X(kReleaseLater, "a release was repeated")                                                     \
  X(kHoldEndLater, "the end of a hold was repeated")                                             \
  X(kHoldBegunLater, "a hold was to be known at a home that seemed dead")                        \
  X(kSessionEndRepeated, "the end of a session was repeated")                                    \
  X(kToldLater, "a home was told late that a name is gone")                                      \
  X(kUndoAwaited, "a publish waited for a home to hear that one before failed")                  \
  X(kOutdatedFreed, "what a receipt was too old for was freed")                                  \
  X(kOutdatedFollowed, "a session's receipt was older than its part")                            \
  X(kFormerDropped, "a home brought a replica that was given up")                                \
  X(kRemovedReported, "a home brought a removed name")                                           \
  X(kUnnamed, "a program ended that did not know whether it had published")                      \
  X(kUnknownRemoved, "a name was removed at a coordinator that did not know it")                 \
  X(kPublishOvertaken, "a request to publish came after a newer one")                            \
  X(kPublishedWithout, "a replica of a dead daemon was given up so that its name need not wait") \
  X(kAttachedMeanwhile, "a name was attached while it was being published")                      \
  X(kPublishUndone, "a publish failed halfway")                                                  \
  X(kSessionTakenUp, "a program came again whose hello had been answered in vain")               \
  X(kUnclaimedGivenBack, "a home had what its session's program did not have after a restart")   \
  X(kLostOfFormer, "a replica was to be given up of a part that was made again and forgotten")   \
  X(kPublishedAgain, "what has its name already was published again")                            \
  X(kNameConflict, "a home brought a name that another allocation has got meanwhile")            \
  X(kOwnerCorrected, "what owns a part changed while it was made again")                         \
  X(kLateResume, "a session was resumed at a home after its end")                                \
  X(kUndoOfEnded, "a failed publish gave back to a session that had ended")                      \
  X(kLateReserve, "a reservation came after its session's end, or its undoing")                  \
  X(kLatePublish, "a publish came after it was undone")                                          \
  X(kLateRemoval, "a removal came when the name was another's")                                  \
  X(kCallBroken, "a connection broke with a request under way")                                  \
  X(kSequencePublished, "a sequence was published")                                              \
  X(kSequenceRemade, "a part of a published sequence was made again")                            \
  X(kOrphanFreed, "an orphan was freed")                                                         \
  X(kResumeRepeated, "a home that missed it was told again that a session goes on")              \
  X(kOrphansMissed, "a daemon came back of whose sessions a home had freed extents")             \
  X(kOrphanVouched, "a home asked for a session that it had not heard of again")                 \
  X(kFreedAskedFor, "a replica was asked for, and its home had freed it")                        \
  X(kMissingAskedFor, "the same of one that its session's next daemon was not told of")          \
  X(kLossAccepted, "a voter accepted that a replica is lost")                                    \
  X(kNoWitness, "a loss was not proposed, for no other home of its part answered")               \
  X(kEndTakenBack, "a home that had said it ends found that it has a last copy")                 \
  X(kEndedSafely, "a daemon with replicas that was told to stop ended by itself")                \
  X(kDoubtSettled, "a loss that was accepted and not learned was finished")                      \
  X(kReplicaDropped, "a home freed a replica that the cluster goes on without")                  \
  X(kCouncilContinued, "a coordinator's run continued the council of an earlier one")            \
  X(kCouncilAccepted, "a voter accepted which council follows")                                  \
  X(kCouncilFinished, "a coordinator's run finished a council that an earlier one proposed")     \
  X(kCouncilOver, "a majority of the voters restarted while the coordinator went on")            \
  X(kCouncilTaught, "a voter heard of its council from a later run of the coordinator")          \
  X(kReplicaFrozen, "a last replica was frozen to be made again")                                \
  X(kRemakeThawed, "a replica that was to be made again was thawed")                             \
  X(kRemadeShort, "a part was made again with fewer replicas than wanted")                       \
  X(kGoneAtHome, "a home that lives had not a replica that it should have")                      \
  X(kGivenLater, "a part was made again while a home of it was silent")                          \
  X(kVacancyFilled, "a part that had too few replicas got more, and had lost none")              \
  X(kFreedInTurns, "a home answered others while it freed what an ended session had")            \
  X(kHoldFollowed, "a home heard of a hold with a part that was made again")                     \
  X(kReplicaRemade, "a part was made again")                                                     \
  X(kPartPlanned, "a spare home heard of a part that may follow")                                \
  X(kPlanSettled, "a home that led ended before others knew what was decided")                   \
  X(kPlanFollowed, "a replica followed a part that another home made again")                     \
  X(kSeatSought, "a voter stood for the seat of a silent coordinator")                           \
  X(kVoterRemembered, "a voter's next run remembered its council")                               \
  X(kPromisedForFormer, "a council ended with the promise of a run that was remembered")         \
  X(kCouncilInstalled, "a voter went on to the next council")                                    \
  X(kVoterSavedLater, "what a voter knew was saved once its disk took it")                       \
  X(kSilentLeft, "a connection on which nothing came was left for a new one")                    \
  X(kVoterAppended, "what became different of what a voter knew was appended")                   \
  X(kInstalledForFormer, "a council was installed for a run that was remembered")                \
  X(kVoterLeftSealed, "a voter had promised to a candidate that failed")                         \
  X(kSeatGivenUp, "a coordinator that stops gave the seat up")                                   \
  X(kNameNoted, "a voter noted a name")                                                          \
  X(kNameExpected, "a coordinator knew a name from notes alone")                                 \
  X(kFoundedByHand, "an operator founded the cluster anew")                                      \
  X(kOfficeTaken, "a node took up the coordinator's role")                                       \
  X(kOfficeLaidDown, "a coordinator lost the seat")                                              \
  X(kToldByFormer, "a home was told of a name by a coordinator that it had left")                \
  X(kSessionResumed, "a session went on under a new run of its daemon")                          \
  X(kShutDown, "a daemon with sessions was told to stop")                                        \
  X(kOverTold, "a daemon was told of the end of what it watched")                                \
  X(kOverToldLater, "the same, and had to be told again")                                        \
  X(kOverBefore, "what a daemon named to a home was over there")                                 \
  X(kRevokedTold, "a program was told that its allocation is revoked")

enum class Point : uint32_t {
#define OCM_FAULT_ENUM(name, text) name,
  OCM_FAULT_POINTS(OCM_FAULT_ENUM) kCount
};
enum class State : uint32_t { OCM_FAULT_STATES(OCM_FAULT_ENUM) kCount };
#undef OCM_FAULT_ENUM

class Hook {
 public:
  virtual ~Hook() = default;
  /// True: it happens now.
  virtual bool happens(Point point) = 0;
  virtual void reached(State state) = 0;
};

namespace detail {
inline std::atomic<Hook*> hook{nullptr};
}

/// Null: off.
inline void install(Hook* hook) { detail::hook.store(hook, std::memory_order_release); }

inline bool at(Point point) {
  Hook* const hook = detail::hook.load(std::memory_order_relaxed);
  return hook != nullptr && hook->happens(point);
}
inline void reached(State state) {
  Hook* const hook = detail::hook.load(std::memory_order_relaxed);
  if (hook != nullptr) hook->reached(state);
}

inline const char* point_name(Point point) {
#define OCM_FAULT_NAME(name, text) text,
  static constexpr const char* kNames[] = {OCM_FAULT_POINTS(OCM_FAULT_NAME)};
  static_assert(std::size(kNames) == static_cast<size_t>(Point::kCount));
  OCM_DASSERT(point < Point::kCount);
  return kNames[static_cast<uint32_t>(point)];
}
inline const char* state_name(State state) {
  static constexpr const char* kNames[] = {OCM_FAULT_STATES(OCM_FAULT_NAME)};
#undef OCM_FAULT_NAME
  static_assert(std::size(kNames) == static_cast<size_t>(State::kCount));
  OCM_DASSERT(state < State::kCount);
  return kNames[static_cast<uint32_t>(state)];
}

}  // namespace ocm::fault

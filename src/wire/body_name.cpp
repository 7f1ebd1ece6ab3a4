// What a control message asks for, as one word: the label of metrics. The schema is compiled without
// descriptors.
#include "control.pb.h"
#include "wire/control.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"

namespace ocm::wire {

std::string_view body_name(const Envelope& message) {
  switch (message.body_case()) {  // no default: a field that is missing here does not compile
    case Envelope::kSessionHello: return "session_hello";
    case Envelope::kSessionWelcome: return "session_welcome";
    case Envelope::kAllocate: return "allocate";
    case Envelope::kAllocation: return "allocation";
    case Envelope::kFree: return "free";
    case Envelope::kPublish: return "publish";
    case Envelope::kAttach: return "attach";
    case Envelope::kNameRemove: return "name_remove";
    case Envelope::kNameList: return "name_list";
    case Envelope::kNames: return "names";
    case Envelope::kCluster: return "cluster";
    case Envelope::kClusterView: return "cluster_view";
    case Envelope::kOpenExtent: return "open_extent";
    case Envelope::kMapPages: return "map_pages";
    case Envelope::kPagesMapped: return "pages_mapped";
    case Envelope::kCopy: return "copy";
    case Envelope::kLostReplica: return "lost_replica";
    case Envelope::kStats: return "stats";
    case Envelope::kStatsReply: return "stats_reply";
    case Envelope::kJoin: return "join";
    case Envelope::kSessionRestore: return "session_restore";
    case Envelope::kNodeHello: return "node_hello";
    case Envelope::kNodeChallenge: return "node_challenge";
    case Envelope::kNodeProof: return "node_proof";
    case Envelope::kHeartbeat: return "heartbeat";
    case Envelope::kReserve: return "reserve";
    case Envelope::kReserved: return "reserved";
    case Envelope::kRelease: return "release";
    case Envelope::kSessionEnd: return "session_end";
    case Envelope::kPublishExtents: return "publish_extents";
    case Envelope::kGoodbye: return "goodbye";
    case Envelope::kSessionResume: return "session_resume";
    case Envelope::kSessionExtents: return "session_extents";
    case Envelope::kLeaseVote: return "lease_vote";
    case Envelope::kLeaseGranted: return "lease_granted";
    case Envelope::kLoseReplica: return "lose_replica";
    case Envelope::kReplicaLosing: return "replica_losing";
    case Envelope::kSealCouncil: return "seal_council";
    case Envelope::kCouncilPromise: return "council_promise";
    case Envelope::kInstallCouncil: return "install_council";
    case Envelope::kHold: return "hold";
    case Envelope::kHeld: return "held";
    case Envelope::kResolve: return "resolve";
    case Envelope::kPartMoved: return "part_moved";
    case Envelope::kGiveReplica: return "give_replica";
    case Envelope::kSessionAt: return "session_at";
    case Envelope::kDigest: return "digest";
    case Envelope::kDigests: return "digests";
    case Envelope::kStopCheck: return "stop_check";
    case Envelope::kStopCheckReply: return "stop_check_reply";
    case Envelope::kReplicaQuery: return "replica_query";
    case Envelope::kReplicaAnswer: return "replica_answer";
    case Envelope::kShareReplica: return "share_replica";
    case Envelope::kPlanPart: return "plan_part";
    case Envelope::kProposeCouncil: return "propose_council";
    case Envelope::kLeader: return "leader";
    case Envelope::kPublished: return "published";
    case Envelope::kNoteNames: return "note_names";
    case Envelope::kFoundCluster: return "found_cluster";
    case Envelope::kEvents: return "events";
    case Envelope::kEventsReply: return "events_reply";
    case Envelope::kWatch: return "watch";
    case Envelope::kWatched: return "watched";
    case Envelope::kExtentsOver: return "extents_over";
    case Envelope::kViewNews: return "view_news";
    case Envelope::kCache: return "cache";
    case Envelope::kCacheable: return "cacheable";
    case Envelope::kResizeCache: return "resize_cache";
    case Envelope::BODY_NOT_SET: break;
  }
  return "unknown";
}

}  // namespace ocm::wire

#pragma GCC diagnostic pop

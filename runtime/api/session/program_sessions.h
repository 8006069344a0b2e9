// What is behind a session's handle: a session for each group of programs that use devices of their own, most often one.
//
// They are of one model, and so share the verified file, its weights, what of them is on a device, and a pool of threads. They may
// hold together what the options let one session hold. One thread at a time, as a session.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/api/session/session.h"

namespace mlc::api {

class ProgramSessions {
 public:
  // As Session::create for each group of programs. Usage for a placement where there are several: it names segments of all programs. A group that
  // the variant which is asked for has no code for has no session, and runs of its programs fail.
  static Result<std::unique_ptr<ProgramSessions>> create(const Model& model, SessionOptions options);

  const Model& model() const { return main().model(); }
  // Of the model's main program, or, if that has none, the first there is.
  Session& main() { return *groups_[main_].session; }
  const Session& main() const { return *groups_[main_].session; }
  // Whether programs can be run, and why not.
  Status can_run(uint32_t method) const { return groups_[model().group_of(method)].missing; }
  // The main one for what has none.
  Session& of(uint32_t method);
  // Of a program by name; the main one for null, and for names that no program has, which it refuses.
  Session& of(const char* program);
  // The same for a run, which may hold what the other sessions do not. Fails as can_run.
  Result<Session*> for_run(const char* program);
  // The one whose programs keep state between runs; the main one if there is none.
  Session& with_state();

  uint32_t size() const { return static_cast<uint32_t>(groups_.size()); }
  Session* at(uint32_t group) { return groups_[group].session.get(); }  // may be null

  // Of all sessions, each line of several with the programs that it is about. Runs may add to its end.
  const std::string& note();

 private:
  struct Group {
    std::unique_ptr<Session> session;  // null: as `missing` says
    std::string programs;
    Status missing;
    size_t heard = 0;  // of the session's note, is in note_
  };

  std::vector<Group> groups_;
  uint32_t main_ = 0;          // the first that has a session
  uint64_t memory_limit_ = 0;  // of all together
  std::string note_;           // of several
};

}  // namespace mlc::api

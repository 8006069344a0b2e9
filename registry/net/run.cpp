// Several requests of a client at once, in one thread, the caller's: what is read in parts and what is sent.
#include <algorithm>

#include "registry/net/call.h"
#include "registry/net/client.h"

namespace mlc::registry {

Status Client::Run::run() {
  client_.denied_.reset();
  while (send_what_may() || !open_.empty()) {
    // All that ended is looked at before anything is sent: one of the answers may say that the registry is busy.
    for (auto ended = client_.http_.wait(patience()); ended; ended = client_.http_.wait(0)) take(std::move(*ended));
  }
  return std::move(outcome_);
}

// False: there is nothing to begin any more.
bool Client::Run::send_what_may() {
  const auto now = Clock::now();
  while (begun_ < end_ && open_.size() < most_ && not_before_ <= now) open_next(begun_++);
  for (auto& [place, open] : open_)
    if (!open->number && on_their_way() < most_ && std::max(open->not_before, not_before_) <= now)
      open->number = client_.http_.begin(open->call.request);
  return begun_ < end_;
}

size_t Client::Run::on_their_way() const {
  return static_cast<size_t>(std::count_if(open_.begin(), open_.end(), [](const auto& one) { return one.second->number.has_value(); }));
}

void Client::Run::open_next(size_t place) {
  auto call = jobs_[place]->next();
  if (!call) return;
  auto open = std::make_unique<Open>(Open{std::move(*call)});
  open->not_before = Clock::now() + std::chrono::milliseconds(jobs_[place]->wait_ms());
  open_.emplace(place, std::move(open));
}

// Milliseconds until something may be sent.
uint64_t Client::Run::patience() const {
  const auto now = Clock::now();
  auto wait = Clock::duration(std::chrono::seconds(1));
  if (on_their_way() < most_)
    for (const auto& [place, open] : open_)
      if (!open->number) wait = std::min(wait, std::max(open->not_before, not_before_) - now);
  return static_cast<uint64_t>(std::max<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(wait).count(), 0));
}

void Client::Run::take(Http::Ended ended) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& one) { return one.second->number == ended.number; });
  if (found == open_.end()) return;
  Open& open = *found->second;
  open.number.reset();
  Result<Answer> answered = std::move(ended.answer);
  if (answered.ok()) {
    auto heard = client_.heard(open.call, std::move(*answered));
    if (heard.ok() && !*heard) return wait(open);
    answered = heard.ok() ? Result<Answer>(std::move(**heard)) : Result<Answer>(std::move(heard).status());
  }
  const size_t place = found->first;
  if (Status status = jobs_[place]->heard(std::move(answered)); !status.ok()) return stop_with(place, std::move(status));
  open_.erase(found);
  open_next(place);
}

// A registry that is busy hears nothing new until the time that it names, and has fewer requests at once from then on.
void Client::Run::wait(Open& open) {
  open.not_before = Clock::now() + std::chrono::milliseconds(open.call.wait_ms);
  if (!open.call.is_busy) return;
  not_before_ = std::max(not_before_, open.not_before);
  most_ = std::max(most_ / 2, size_t{1});
}

// Those before it in the order go on: what they come to may be told instead.
void Client::Run::stop_with(size_t place, Status status) {
  stop_from(place);
  end_ = place;
  outcome_ = std::move(status);
}
void Client::Run::stop_from(size_t place) {
  for (auto at = open_.lower_bound(place); at != open_.end(); at = open_.erase(at)) {
    if (!at->second->number) continue;
    client_.http_.stop(*at->second->number);
    jobs_[at->first]->was_stopped();
  }
}

}  // namespace mlc::registry

#include "runtime/cli/profile/profile_pages.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/cli/report.h"

namespace mlc::cli {
namespace {

constexpr double kWidth = 1000, kHeight = 380, kLeft = 70, kBottom = 40;
constexpr size_t kMostBars = 20'000;  // of the time line

// A text of the file, which may hold anything.
std::string html(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

// Operators have colours of their own, in the order of their first launch.
class Colours {
 public:
  std::string of(const std::string& op) {
    const auto [found, is_new] = numbers_.emplace(op, numbers_.size());
    return formatted("hsl(%d,60%%,45%%)", static_cast<int>(found->second * 137 % 360));
  }

 private:
  std::map<std::string, size_t> numbers_;
};

std::string tip(const ProfiledLaunch& l) { return html(l.name) + formatted(": %.1f us", static_cast<double>(l.min_ns) / 1e3); }

// Both axes logarithmic: operations for each byte to the right, operations per second upwards.
class Roofline {
 public:
  Roofline(const Profile& profile, const Ceilings& ceilings) : profile_(profile), ceilings_(ceilings) {
    double most = ceilings.operations_per_s, least = most, low = 1, high = 1;
    each_point([&](const ProfiledLaunch&, double intensity, double rate) {
      low = std::min(low, intensity), high = std::max(high, intensity);
      least = std::min(least, rate), most = std::max(most, rate);
    });
    most = std::max(most, ceilings.byte_operations_per_s);
    x_ = {std::floor(std::log10(std::max(low, 1e-3))), std::ceil(std::log10(std::max(high, 100.0)))};
    y_ = {std::floor(std::log10(std::max(least, most * 1e-6))), std::log10(most) + 0.2};
  }

  std::string svg(Colours& colours) const {
    std::string out = formatted("<svg viewBox='0 0 %.0f %.0f' role='img'><title>roofline</title>", kWidth, kHeight);
    for (double e = x_.low; e <= x_.high; ++e)
      out += line("tick", x(e), y(y_.low), x(e), y(y_.high)) + formatted("<text x='%.1f' y='%.1f' class='middle'>%g</text>", x(e), kHeight - 20, std::pow(10, e));
    for (double e = std::ceil(y_.low); e <= y_.high; ++e)
      out += line("tick", x(x_.low), y(e), x(x_.high), y(e)) + formatted("<text x='%.1f' y='%.1f' class='end'>%g</text>", kLeft - 6, y(e) + 4, std::pow(10, e - 9));
    out += formatted("<text x='%.0f' y='%.0f' class='end'>operations per byte</text><text x='4' y='12'>G operations/s</text>", kWidth - 4, kHeight - 4);
    out += roof("arithmetic", ceilings_.operations_per_s);
    if (ceilings_.byte_operations_per_s > 0) out += roof("products of bytes", ceilings_.byte_operations_per_s);
    for (const Ceilings::Level& level : ceilings_.levels) out += slope(level);
    each_point([&](const ProfiledLaunch& l, double intensity, double rate) {
      const double share = static_cast<double>(l.min_ns) / static_cast<double>(std::max<uint64_t>(profile_.min_ns(), 1));
      out += formatted("<circle cx='%.1f' cy='%.1f' r='%.1f' fill='%s' fill-opacity='.6'><title>", x(std::log10(intensity)), y(std::log10(rate)),
                    2 + 30 * std::sqrt(std::min(share, 1.0)) / 2, colours.of(l.op).c_str()) + tip(l) + "</title></circle>";
    });
    return out + "</svg>";
  }

 private:
  struct Axis {
    double low = 0, high = 1;
  };
  template <class Visit>
  void each_point(const Visit& visit) const {
    for (const ProfiledLaunch& l : profile_.launches)
      if (l.knows_work() && l.min_ns > 0 && l.all_operations() > 0 && l.all_bytes() > 0)
        visit(l, std::clamp(l.all_operations() / l.all_bytes(), 1e-3, 1e9), l.all_operations() * 1e9 / static_cast<double>(l.min_ns));
  }
  double x(double exponent) const { return kLeft + (exponent - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - 10); }
  double y(double exponent) const {
    return (kHeight - kBottom) * (1 - (std::clamp(exponent, y_.low, y_.high) - y_.low) / (y_.high - y_.low)) + 4;
  }
  static std::string line(const char* kind, double x1, double y1, double x2, double y2) {
    return formatted("<line class='%s' x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f'/>", kind, x1, y1, x2, y2);
  }
  std::string roof(const char* name, double rate) const {
    const double at = y(std::log10(rate));
    return line("roof", x(x_.low), at, x(x_.high), at) + formatted("<text x='%.0f' y='%.1f' class='end'>%s %.0f</text>", kWidth - 12, at - 4, name, rate / 1e9);
  }
  // What a level gives: rate = intensity * bandwidth, from the bottom of the plot to the roof.
  std::string slope(const Ceilings::Level& level) const {
    const double bandwidth = std::log10(level.bytes_per_s), top = std::log10(ceilings_.operations_per_s);
    const double begin = std::max(x_.low, y_.low - bandwidth), end = std::min(x_.high, top - bandwidth);
    if (begin >= end) return "";
    return line("roof", x(begin), y(begin + bandwidth), x(end), y(end + bandwidth)) +
           formatted("<text x='%.1f' y='%.1f'>%s %.0f GB/s</text>", x(begin) + 4, y(begin + bandwidth) - 6, level.name.c_str(), level.bytes_per_s / 1e9);
  }

  const Profile& profile_;
  const Ceilings& ceilings_;
  Axis x_, y_;
};

// When the last run began, and how long it took, as far as launches tell.
struct Span {
  uint64_t begin = UINT64_MAX, end = 0;
  double ns() const { return end > begin ? static_cast<double>(end - begin) : 1; }
};
Span span_of(const Profile& profile) {
  Span span;
  for (const ProfiledLaunch& l : profile.launches)
    for (const MlcProfileMoments& m : l.moments)
      if (m.left > 0) span.begin = std::min(span.begin, m.begin), span.end = std::max(span.end, m.left);
  return span;
}

// A row for each thread: what it did, coloured, and what it waited, grey.
std::string time_line(const Profile& profile, Colours& colours) {
  constexpr double kRow = 26;
  const Span span = span_of(profile);
  size_t threads = 0, bars = 0;
  for (const ProfiledLaunch& l : profile.launches) threads = std::max(threads, l.moments.size());
  std::string out = formatted("<svg viewBox='0 0 %.0f %.0f' role='img'><title>time line</title>", kWidth, kRow * static_cast<double>(threads) + 20);
  const auto at = [&](uint64_t t) { return kLeft + static_cast<double>(t - span.begin) / span.ns() * (kWidth - kLeft - 10); };
  for (size_t w = 0; w < threads; ++w) out += formatted("<text x='0' y='%.1f'>thread %zu</text>", kRow * static_cast<double>(w) + 16, w);
  for (const ProfiledLaunch& l : profile.launches)
    for (size_t w = 0; w < l.moments.size() && bars < kMostBars; ++w) {
      const MlcProfileMoments& m = l.moments[w];
      if (m.left == 0) continue;
      const auto bar = [&](uint64_t from, uint64_t to, const std::string& fill) {
        if (to <= from) return;
        ++bars;
        out += formatted("<rect x='%.2f' y='%.1f' width='%.2f' height='20' fill='%s'><title>", at(from), kRow * static_cast<double>(w) + 2, at(to) - at(from), fill.c_str()) +
               html(l.name) + formatted(": %.1f us</title></rect>", static_cast<double>(to - from) / 1e3);
      };
      bar(m.begin, m.done, colours.of(l.op));
      bar(m.done, m.left, "#ccc");
    }
  out += formatted("<text x='%.0f' y='%.1f'>0</text><text x='%.0f' y='%.1f' class='end'>%.3f ms</text></svg>", kLeft, kRow * static_cast<double>(threads) + 14,
                kWidth - 10, kRow * static_cast<double>(threads) + 14, span.ns() / 1e6);
  return out + (bars == kMostBars ? "<p>The first launches only." : "");
}

std::string table(const Profile& profile, const Ceilings& ceilings) {
  std::string out = "<table><thead><tr><th>launch<th>operator<th>least, us<th>median, us<th>G operations/s<th>GB/s<th>operations per byte<th>of the roof, %"
                    "<th>parts<th>threads<th>waited, us</thead><tbody>\n";
  for (const ProfiledLaunch& l : profile.launches) {
    const double ns = static_cast<double>(std::max<uint64_t>(l.min_ns, 1)), share = l.share_of_roof(ceilings);
    out += "<tr><td>" + html(l.name) + "<td>" + html(l.op) + formatted("<td>%.2f<td>%.2f", static_cast<double>(l.min_ns) / 1e3, static_cast<double>(l.median_ns) / 1e3);
    out += l.operations == MLC_NOT_KNOWN ? "<td>" : formatted("<td>%.2f", l.all_operations() / ns);
    out += l.knows_work() ? formatted("<td>%.2f", l.all_bytes() / ns) : "<td>";
    out += l.knows_work() && l.all_bytes() > 0 ? formatted("<td>%.2f", l.all_operations() / l.all_bytes()) : "<td>";
    out += share < 0 ? "<td>" : formatted("<td>%.1f", 100 * share);
    out += formatted("<td>%llu<td>%u<td>%.2f\n", static_cast<unsigned long long>(l.tiles), l.threads, static_cast<double>(l.waited_ns) / 1e3);
  }
  return out + "</tbody></table>";
}

constexpr const char* kHead =
    "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'\"><style>body{font:14px sans-serif;margin:2em;max-width:1100px}svg{width:100%;height:auto}svg text{font:11px sans-serif}"
    ".end{text-anchor:end}.middle{text-anchor:middle}.tick{stroke:#eee}.roof{stroke:#333;stroke-width:1.5}table{border-collapse:collapse;font-size:12px}"
    "th{cursor:pointer;text-align:left}td,th{padding:2px 8px;border-bottom:1px solid #eee}td:nth-child(n+3){text-align:right}pre{font-size:12px}</style>\n";
// A click on a head sorts by that column, another one the other way round.
constexpr const char* kSort =
    "<script>document.querySelectorAll('th').forEach((h,c)=>h.onclick=()=>{const b=document.querySelector('tbody');const v=r=>r.cells[c].textContent;"
    "const d=h.down=!h.down;[...b.rows].sort((x,y)=>{const p=+v(x),q=+v(y);const o=c>1?p-q:v(x).localeCompare(v(y));return d?-o:o}).forEach(r=>b.append(r))})"
    "</script></html>\n";

// A text as JSON writes it.
std::string quoted(const std::string& text) { return Json(text).print(); }

}  // namespace

std::string profile_page(const Profile& profile, const Ceilings& ceilings, const std::string& title, const std::string& summary) {
  Colours colours;
  std::string out = kHead;
  out += "<title>" + html(title) + "</title><h1>" + html(title) + "</h1><pre>";
  for (size_t at = 0; at < summary.size();) {
    const size_t end = std::min(summary.find('\n', at), summary.size());
    out += html(summary.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  out += "</pre>\n";
  if (ceilings.are_known()) out += "<h2>Roofline</h2><p>A circle is a launch; its area is its part of the time.\n" + Roofline(profile, ceilings).svg(colours);
  out += "<h2>The last run</h2>\n" + time_line(profile, colours);
  out += "<h2>Launches</h2><p>A click on a head sorts.\n" + table(profile, ceilings);
  return out + kSort;
}

std::string profile_trace(const Profile& profile) {
  const Span span = span_of(profile);
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"mlrun profile\"}}";
  for (const ProfiledLaunch& l : profile.launches)
    for (size_t w = 0; w < l.moments.size(); ++w) {
      const MlcProfileMoments& m = l.moments[w];
      if (m.left == 0) continue;
      const auto event = [&](const std::string& name, const std::string& kind, uint64_t from, uint64_t to) {
        out += ",\n{\"name\":" + quoted(name) + ",\"cat\":" + quoted(kind) +
               formatted(",\"ph\":\"X\",\"pid\":1,\"tid\":%zu,\"ts\":%.3f,\"dur\":%.3f", w, static_cast<double>(from - span.begin) / 1e3,
                      static_cast<double>(to - from) / 1e3);
      };
      event(l.name, l.op, m.begin, m.done);
      out += ",\"args\":{\"function\":" + quoted(l.function) + formatted(",\"parts\":%llu", static_cast<unsigned long long>(l.tiles));
      if (l.operations != MLC_NOT_KNOWN) out += formatted(",\"operations\":%llu", static_cast<unsigned long long>(l.operations));
      out += "}}";
      if (m.left == m.done) continue;
      event("waits", "wait", m.done, m.left);
      out += "}";
    }
  return out + "\n]}\n";
}

}  // namespace mlc::cli

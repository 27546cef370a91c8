#include "probe/io_report_macos.h"

#include <dlfcn.h>

#include <array>
#include <string_view>

namespace smeltr::probe {
namespace {

constexpr const char* kIoReportLibrary = "/usr/lib/libIOReport.dylib";
constexpr const char* kCoreFoundation = "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation";
constexpr uint32_t kUtf8 = 0x08000100;

using Ref = const void*;

struct Functions {
  Ref (*string_create)(Ref allocator, const char* text, uint32_t encoding);
  unsigned char (*string_text)(Ref text, char* buffer, long size, uint32_t encoding);
  void (*release)(Ref object);
  long (*array_count)(Ref array);
  Ref (*array_at)(Ref array, long index);
  Ref (*dictionary_value)(Ref dictionary, Ref key);
  Ref (*copy_channels)(Ref group, Ref subgroup, uint64_t, uint64_t, uint64_t);
  void (*merge_channels)(Ref into, Ref from, Ref);
  Ref (*create_subscription)(void*, Ref channels, Ref* subscribed, uint64_t, Ref);
  Ref (*create_samples)(Ref subscription, Ref subscribed, Ref);
  Ref (*create_delta)(Ref before, Ref now, Ref);
  Ref (*channel_group)(Ref channel);
  Ref (*channel_name)(Ref channel);
  Ref (*channel_unit)(Ref channel);
  int32_t (*state_count)(Ref channel);
  Ref (*state_name)(Ref channel, int32_t index);
  int64_t (*state_residency)(Ref channel, int32_t index);
  int64_t (*simple_value)(Ref channel, int32_t);
};

template <typename F>
bool Find(void* library, const char* symbol, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, symbol));
  return function != nullptr;
}

bool Load(Functions& f) {
  void* foundation = ::dlopen(kCoreFoundation, RTLD_LAZY | RTLD_LOCAL);
  void* report = ::dlopen(kIoReportLibrary, RTLD_LAZY | RTLD_LOCAL);
  if (foundation == nullptr || report == nullptr) return false;
  return Find(foundation, "CFStringCreateWithCString", f.string_create) &&
         Find(foundation, "CFStringGetCString", f.string_text) && Find(foundation, "CFRelease", f.release) &&
         Find(foundation, "CFArrayGetCount", f.array_count) &&
         Find(foundation, "CFArrayGetValueAtIndex", f.array_at) &&
         Find(foundation, "CFDictionaryGetValue", f.dictionary_value) &&
         Find(report, "IOReportCopyChannelsInGroup", f.copy_channels) &&
         Find(report, "IOReportMergeChannels", f.merge_channels) &&
         Find(report, "IOReportCreateSubscription", f.create_subscription) &&
         Find(report, "IOReportCreateSamples", f.create_samples) &&
         Find(report, "IOReportCreateSamplesDelta", f.create_delta) &&
         Find(report, "IOReportChannelGetGroup", f.channel_group) &&
         Find(report, "IOReportChannelGetChannelName", f.channel_name) &&
         Find(report, "IOReportChannelGetUnitLabel", f.channel_unit) &&
         Find(report, "IOReportStateGetCount", f.state_count) &&
         Find(report, "IOReportStateGetNameForIndex", f.state_name) &&
         Find(report, "IOReportStateGetResidency", f.state_residency) &&
         Find(report, "IOReportSimpleGetIntegerValue", f.simple_value);
}

}  // namespace

struct IoReport::State {
  Functions f{};
  Ref subscription = nullptr;
  Ref subscribed = nullptr;
  Ref before = nullptr;

  std::string Text(Ref string) const {
    std::array<char, 128> buffer{};
    if (string == nullptr || f.string_text(string, buffer.data(), buffer.size(), kUtf8) == 0) return {};
    return buffer.data();
  }
  Ref Channels(const char* group, const char* subgroup) const {
    Ref group_text = f.string_create(nullptr, group, kUtf8);
    Ref subgroup_text = subgroup == nullptr ? nullptr : f.string_create(nullptr, subgroup, kUtf8);
    Ref channels = f.copy_channels(group_text, subgroup_text, 0, 0, 0);
    f.release(group_text);
    if (subgroup_text != nullptr) f.release(subgroup_text);
    return channels;
  }
  bool Subscribe() {
    Ref states = Channels("GPU Stats", "GPU Performance States");
    Ref energy = Channels("Energy Model", nullptr);
    if (states != nullptr && energy != nullptr) f.merge_channels(states, energy, nullptr);
    Ref wanted = states != nullptr ? states : energy;
    if (wanted != nullptr) subscription = f.create_subscription(nullptr, wanted, &subscribed, 0, nullptr);
    if (energy != nullptr) f.release(energy);
    if (states != nullptr) f.release(states);
    return subscription != nullptr && subscribed != nullptr;
  }
  void Take(Ref channel, IoReportFigures& figures) const;
};

// A channel of power states: how long it was in any but the one that is off. One of energy: how much.
void IoReport::State::Take(Ref channel, IoReportFigures& figures) const {
  const std::string group = Text(f.channel_group(channel));
  const std::string name = Text(f.channel_name(channel));
  if (group == "GPU Stats" && name == "GPUPH") {
    int64_t all = 0;
    int64_t off = 0;
    for (int32_t i = 0; i < f.state_count(channel); ++i) {
      const int64_t residency = f.state_residency(channel, i);
      all += residency;
      if (Text(f.state_name(channel, i)) == "OFF") off += residency;
    }
    if (all > 0)
      figures.gpu_residency_pct = 100.0 * static_cast<double>(all - off) / static_cast<double>(all);
  }
  if (group == "Energy Model" && name == "GPU Energy") {
    const std::string unit = Text(f.channel_unit(channel));
    const double per_mj = unit == "nJ" ? 1e6 : unit == "uJ" ? 1e3 : unit == "mJ" ? 1 : 0;
    if (per_mj > 0) figures.gpu_energy_mj = static_cast<double>(f.simple_value(channel, 0)) / per_mj;
  }
}

IoReport::IoReport() : state_(std::make_unique<State>()) {}

IoReport::~IoReport() {
  for (Ref held : {state_->before, state_->subscribed, state_->subscription}) {
    if (held != nullptr) state_->f.release(held);
  }
}

std::unique_ptr<IoReport> IoReport::Open(std::string& reason) {
  std::unique_ptr<IoReport> report(new IoReport());
  if (!Load(report->state_->f)) {
    reason = "this macOS has no IOReport that is understood";
    return nullptr;
  }
  if (!report->state_->Subscribe()) {
    reason = "IOReport has no channels of a GPU";
    return nullptr;
  }
  return report;
}

IoReportFigures IoReport::Read() {
  IoReportFigures figures;
  State& s = *state_;
  Ref now = s.f.create_samples(s.subscription, s.subscribed, nullptr);
  if (now == nullptr) return figures;
  Ref delta = s.before == nullptr ? nullptr : s.f.create_delta(s.before, now, nullptr);
  if (s.before != nullptr) s.f.release(s.before);
  s.before = now;
  if (delta == nullptr) return figures;
  Ref key = s.f.string_create(nullptr, "IOReportChannels", kUtf8);
  Ref channels = s.f.dictionary_value(delta, key);
  const long count = channels == nullptr ? 0 : s.f.array_count(channels);
  for (long i = 0; i < count; ++i) s.Take(s.f.array_at(channels, i), figures);
  s.f.release(key);
  s.f.release(delta);
  return figures;
}

}  // namespace smeltr::probe

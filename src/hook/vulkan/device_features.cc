#include "hook/vulkan/device_features.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace smeltr::hook::vulkan {
namespace {

constexpr const char* kTimeline = VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME;
constexpr const char* kHostQueryReset = VK_EXT_HOST_QUERY_RESET_EXTENSION_NAME;
constexpr const char* kCalibrated = VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME;
constexpr const char* kCalibratedKhr = "VK_KHR_calibrated_timestamps";

// 0: not a struct we may copy.
size_t SizeOf(VkStructureType type) {
  switch (type) {
#define CHAIN(value, structure) \
  case value:                   \
    return sizeof(structure);
#include "hook/vulkan/feature_chain.def"
    case VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO:
      return sizeof(VkLayerDeviceCreateInfo);
    default:
      return 0;
  }
}

}  // namespace

DeviceRequest::DeviceRequest(const Instance& instance, VkPhysicalDevice physical,
                             const VkDeviceCreateInfo& info)
    : instance_(instance), physical_(physical), info_(info) {
  extensions_.assign(info.ppEnabledExtensionNames, info.ppEnabledExtensionNames + info.enabledExtensionCount);
  const InstanceTable& next = instance.next;
  uint32_t count = 0;
  if (next.EnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr) == VK_SUCCESS) {
    available_.resize(count);
    if (next.EnumerateDeviceExtensionProperties(physical, nullptr, &count, available_.data()) < 0) count = 0;
    available_.resize(count);
  }
  Identify();
  plain_traits_ = traits_;

  VkPhysicalDeviceProperties properties{};
  next.GetPhysicalDeviceProperties(physical, &properties);
  const uint32_t version = std::min(instance.api_version, properties.apiVersion);
  const bool has_core = version >= VK_API_VERSION_1_2;
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{};
  timeline.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
  VkPhysicalDeviceHostQueryResetFeatures reset{};
  reset.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  void** tail = &features.pNext;
  const auto ask = [&](auto& structure, const char* extension) {
    if (!has_core && !HasExtension(extension)) return;
    *tail = &structure;
    tail = &structure.pNext;
  };
  ask(timeline, kTimeline);
  ask(reset, kHostQueryReset);
  if (next.GetPhysicalDeviceFeatures2 != nullptr) next.GetPhysicalDeviceFeatures2(physical, &features);

  WishTimeline(version, timeline.timelineSemaphore == VK_TRUE);
  WishHostQueryReset(version, reset.hostQueryReset == VK_TRUE);
  WishCalibratedTimestamps();
  info_.enabledExtensionCount = static_cast<uint32_t>(extensions_.size());
  info_.ppEnabledExtensionNames = extensions_.data();
}

DeviceRequest::~DeviceRequest() {
  for (void* copy : copies_) std::free(copy);
}

void DeviceRequest::Identify() {
  const InstanceTable& next = instance_.next;
  VkPhysicalDeviceProperties properties{};
  next.GetPhysicalDeviceProperties(physical_, &properties);
  traits_.ns_per_tick = static_cast<double>(properties.limits.timestampPeriod);
  traits_.llvmpipe = std::strncmp(properties.deviceName, "llvmpipe", 8) == 0;
  traits_.memory_budget =
      HasExtension(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) && next.GetPhysicalDeviceMemoryProperties2 != nullptr;
  if (const auto* group = reinterpret_cast<const VkDeviceGroupDeviceCreateInfo*>(
          Find(VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO))) {
    traits_.device_group = group->physicalDeviceCount > 1;
  }
}

void DeviceRequest::WishTimeline(uint32_t version, bool supported) {
  const auto type = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
  const auto member = &VkPhysicalDeviceVulkan12Features::timelineSemaphore;
  if (IsEnabledByProgram(type, member)) {
    traits_.timeline = plain_traits_.timeline = true;
    return;
  }
  if (!supported || !EnableFeature(type, member)) return;
  traits_.timeline = true;
  if (version < VK_API_VERSION_1_2) traits_.hide_timeline = AddExtension(kTimeline);
}

void DeviceRequest::WishHostQueryReset(uint32_t version, bool supported) {
  const auto type = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES;
  const auto member = &VkPhysicalDeviceVulkan12Features::hostQueryReset;
  if (IsEnabledByProgram(type, member)) {
    traits_.host_query_reset = plain_traits_.host_query_reset = true;
    return;
  }
  if (!supported || !EnableFeature(type, member)) return;
  traits_.host_query_reset = true;
  if (version < VK_API_VERSION_1_2) traits_.hide_host_query_reset = AddExtension(kHostQueryReset);
}

void DeviceRequest::WishCalibratedTimestamps() {
  const bool by_khr = !HasExtension(kCalibrated);
  const char* name = by_khr ? kCalibratedKhr : kCalibrated;
  const auto domains_of = instance_.next.GetPhysicalDeviceCalibrateableTimeDomainsEXT;
  if (traits_.llvmpipe || !HasExtension(name) || domains_of == nullptr) return;
  VkTimeDomainEXT domains[16];
  uint32_t count = 16;
  if (domains_of(physical_, &count, domains) < 0) return;
  const auto has = [&](VkTimeDomainEXT domain) { return std::count(domains, domains + count, domain) > 0; };
  if (!has(VK_TIME_DOMAIN_DEVICE_EXT) || !has(VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT)) return;
  traits_.calibrated_timestamps = true;
  traits_.hide_calibrated_timestamps = AddExtension(name);
  plain_traits_.calibrated_timestamps = !traits_.hide_calibrated_timestamps;
}

const VkBaseInStructure* DeviceRequest::Find(VkStructureType type) const {
  for (auto* next = static_cast<const VkBaseInStructure*>(info_.pNext); next != nullptr; next = next->pNext) {
    if (next->sType == type) return next;
  }
  return nullptr;
}

bool DeviceRequest::IsEnabledByProgram(VkStructureType single_type,
                                       VkBool32 VkPhysicalDeviceVulkan12Features::* combined) const {
  if (const auto* all = Find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)) {
    return reinterpret_cast<const VkPhysicalDeviceVulkan12Features*>(all)->*combined == VK_TRUE;
  }
  // Both single structs hold one bit, in the same place.
  const auto* single = Find(single_type);
  return single != nullptr &&
         reinterpret_cast<const VkPhysicalDeviceTimelineSemaphoreFeatures*>(single)->timelineSemaphore ==
             VK_TRUE;
}

bool DeviceRequest::EnableFeature(VkStructureType single_type,
                                  VkBool32 VkPhysicalDeviceVulkan12Features::* combined) {
  // The struct that holds all features of 1.2 excludes the single ones, so whichever is there must be used.
  if (Find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) != nullptr) {
    VkBaseOutStructure* all = Writable(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    if (all == nullptr) return false;
    reinterpret_cast<VkPhysicalDeviceVulkan12Features*>(all)->*combined = VK_TRUE;
    return changed_ = true;
  }
  if (Find(single_type) != nullptr) {
    VkBaseOutStructure* single = Writable(single_type);
    if (single == nullptr) return false;
    reinterpret_cast<VkPhysicalDeviceTimelineSemaphoreFeatures*>(single)->timelineSemaphore = VK_TRUE;
    return changed_ = true;
  }
  const auto put_in_front = [&](auto& structure) {
    structure.sType = single_type;
    structure.pNext = const_cast<void*>(info_.pNext);
    info_.pNext = &structure;
  };
  if (single_type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES) {
    timeline_.timelineSemaphore = VK_TRUE;
    put_in_front(timeline_);
  } else {
    host_query_reset_.hostQueryReset = VK_TRUE;
    put_in_front(host_query_reset_);
  }
  return changed_ = true;
}

VkBaseOutStructure* DeviceRequest::Writable(VkStructureType type) {
  for (auto* next = static_cast<const VkBaseInStructure*>(info_.pNext); next->sType != type;
       next = next->pNext) {
    if (SizeOf(next->sType) == 0) return nullptr;
  }
  // Copies of copies, should two features need it, cost nothing worth avoiding.
  const void** link = &info_.pNext;
  for (;;) {
    const auto* original = static_cast<const VkBaseInStructure*>(*link);
    const size_t size = SizeOf(original->sType);
    auto* copy = static_cast<VkBaseOutStructure*>(std::malloc(size));
    if (copy == nullptr) return nullptr;
    copies_.push_back(copy);
    std::memcpy(static_cast<void*>(copy), original, size);
    *link = copy;
    if (copy->sType == type) return copy;
    link = const_cast<const void**>(reinterpret_cast<void**>(&copy->pNext));
  }
}

bool DeviceRequest::HasExtension(const char* name) const {
  return std::any_of(available_.begin(), available_.end(), [&](const VkExtensionProperties& extension) {
    return std::strcmp(extension.extensionName, name) == 0;
  });
}

bool DeviceRequest::AddExtension(const char* name) {
  const bool asked = std::any_of(extensions_.begin(), extensions_.end(),
                                 [&](const char* extension) { return std::strcmp(extension, name) == 0; });
  if (asked) return false;
  extensions_.push_back(name);
  return changed_ = true;
}

}  // namespace smeltr::hook::vulkan

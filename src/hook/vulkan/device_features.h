// What we would like of a device beyond what the program asked for, added to its VkDeviceCreateInfo without
// changing a byte of what the program passed.
#pragma once

#include <vector>

#include "hook/vulkan/state.h"

namespace smeltr::hook::vulkan {

class DeviceRequest {
 public:
  // `info` must stay valid as long as this object.
  DeviceRequest(const Instance& instance, VkPhysicalDevice physical, const VkDeviceCreateInfo& info);
  ~DeviceRequest();
  DeviceRequest(const DeviceRequest&) = delete;
  DeviceRequest& operator=(const DeviceRequest&) = delete;

  // The program's request with our wishes.
  const VkDeviceCreateInfo& info() const { return info_; }
  bool changed() const { return changed_; }
  // What the device will have with info(), and what with the program's own request.
  const DeviceTraits& traits() const { return traits_; }
  const DeviceTraits& plain_traits() const { return plain_traits_; }

 private:
  // Turns one feature on, wherever the chain allows. False: it stays as it is.
  bool EnableFeature(VkStructureType single_type, VkBool32 VkPhysicalDeviceVulkan12Features::* combined);
  bool IsEnabledByProgram(VkStructureType single_type,
                          VkBool32 VkPhysicalDeviceVulkan12Features::* combined) const;
  // A node of the chain that may be written: everything up to it is copied first. Null when some struct on
  // the way is of a size we do not know.
  VkBaseOutStructure* Writable(VkStructureType type);
  const VkBaseInStructure* Find(VkStructureType type) const;
  bool HasExtension(const char* name) const;
  // Asks for a device extension, if there is such and the program did not.
  bool AddExtension(const char* name);
  void Identify();
  void WishTimeline(uint32_t version, bool supported);
  void WishHostQueryReset(uint32_t version, bool supported);
  void WishCalibratedTimestamps();

  const Instance& instance_;
  VkPhysicalDevice physical_;
  VkDeviceCreateInfo info_;
  bool changed_ = false;
  DeviceTraits traits_;
  DeviceTraits plain_traits_;
  std::vector<VkExtensionProperties> available_;
  std::vector<const char*> extensions_;
  std::vector<void*> copies_;
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline_{};
  VkPhysicalDeviceHostQueryResetFeatures host_query_reset_{};
};

}  // namespace smeltr::hook::vulkan

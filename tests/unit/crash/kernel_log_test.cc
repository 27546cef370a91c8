// Lines as machines write them: most from public reports, some adapted from such.
#include "crash/kernel_log.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace smeltr::crash {
namespace {

class KernelLogTest : public testing::Test {
 protected:
  LineKind Add(std::string_view line) { return log_.Add(ParsePlainLine(line), findings_); }

  template <typename T>
  T Only() {
    EXPECT_EQ(findings_.size(), 1U);
    if (findings_.size() != 1 || !std::holds_alternative<T>(findings_[0])) {
      ADD_FAILURE() << "not the one finding that was expected";
      return {};
    }
    T result = std::get<T>(findings_[0]);
    findings_.clear();
    return result;
  }

  KernelLog log_;
  std::vector<Finding> findings_;
};

TEST_F(KernelLogTest, XidWithProcess) {
  EXPECT_EQ(Add("[Fri Aug 30 11:43:14 2024] x"), LineKind::kOther);
  EXPECT_EQ(Add("NVRM: Xid (PCI:0000:cb:00): 109, pid=1797828, name=pt_main_thread, Ch 00000008, errorString "
                "CTX SWITCH TIMEOUT, Info 0x58005"),
            LineKind::kXid);
  const auto fault = Only<GpuFaultLine>();
  EXPECT_EQ(fault.vendor, "nvidia");
  EXPECT_EQ(fault.code, 109);
  EXPECT_EQ(fault.fault_class, FaultClass::kHang);
  EXPECT_EQ(fault.pci_address, "0000:cb:00.0");
  EXPECT_EQ(fault.pid, 1797828U);
  EXPECT_EQ(fault.process_name, "pt_main_thread");
  EXPECT_FALSE(fault.consequence);
}

TEST_F(KernelLogTest, XidWithUnknownProcess) {
  Add("NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC "
      "7, TPC 7, "
      "SM 0): Illegal Instruction Parameter");
  const auto fault = Only<GpuFaultLine>();
  EXPECT_EQ(fault.code, 13);
  EXPECT_EQ(fault.pid, 0U);
  EXPECT_EQ(fault.process_name, "");
}

TEST_F(KernelLogTest, XidWithoutProcess) {
  Add("[24128.834365] NVRM: Xid (PCI:0000:01:00): 31, Ch 00000003, engmask 00000101, intr 10000000");
  EXPECT_EQ(Only<GpuFaultLine>().stamp_us, 24'128'834'365U);
  Add("NVRM: Xid (0000:01:00): 13, 0005 00000000 0000502d 00000104 00000000 00000100");
  const auto fault = Only<GpuFaultLine>();
  EXPECT_EQ(fault.code, 13);
  EXPECT_EQ(fault.pci_address, "0000:01:00.0");
  EXPECT_EQ(fault.pid, 0U);
  Add("NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to "
      "activate.");
  const auto remap = Only<GpuFaultLine>();
  EXPECT_EQ(remap.pid, 1896U);
  EXPECT_EQ(remap.process_name, "");
  EXPECT_EQ(remap.fault_class, FaultClass::kMemory);
}

TEST_F(KernelLogTest, XidOfAMigInstanceInHexAndWithAddress) {
  Add("NVRM: Xid (PCI:0000:C1:00 GPU-I:05): 0x1f, pid=12, name=my prog, Ch 00000018, intr 00000000. MMU "
      "Fault: ENGINE "
      "GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f36_3a000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ");
  const auto fault = Only<GpuFaultLine>();
  EXPECT_EQ(fault.code, 31);
  EXPECT_EQ(fault.pci_address, "0000:c1:00.0");
  EXPECT_EQ(fault.process_name, "my prog");
  EXPECT_EQ(fault.address, 0x7f363a000000U);
}

TEST_F(KernelLogTest, XidThatNamesItsCause) {
  Add("Aug 12 10:00:00 h kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 "
      "caused by "
      "previous Xid 149");
  EXPECT_TRUE(Only<GpuFaultLine>().consequence);
}

TEST_F(KernelLogTest, LostGpuAndSwitch) {
  Add("[1084456.074566] NVRM: GPU 0000:09:00.0: GPU has fallen off the bus.");
  const auto lost = Only<GpuFaultLine>();
  EXPECT_EQ(lost.code, 79);
  EXPECT_EQ(lost.pci_address, "0000:09:00.0");
  Add("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)");
  const auto fabric = Only<GpuFaultLine>();
  EXPECT_EQ(fabric.code, 28006);
  EXPECT_EQ(fabric.fault_class, FaultClass::kLink);
}

TEST_F(KernelLogTest, XidThatMakesNoSenseIsOnlyALine) {
  EXPECT_EQ(Add("NVRM: Xid (PCI:0000:3b:00"), LineKind::kGpu);
  EXPECT_EQ(Add("NVRM: Xid (PCI:0000:3b:00): what"), LineKind::kGpu);
  EXPECT_EQ(Add("NVRM: loading NVIDIA UNIX x86_64 Kernel Module"), LineKind::kOther);
  // A process may call itself what it likes.
  EXPECT_EQ(Add("audit: comm=\"NVRM: Xid (PCI:0000:3b:00): 79, pid=1\""), LineKind::kOther);
  EXPECT_TRUE(findings_.empty());
}

TEST_F(KernelLogTest, AmdTimeoutIsJoinedWithItsProcess) {
  EXPECT_EQ(Add("[ 2679.300365] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled "
                "seq=502589, emitted seq=502591"),
            LineKind::kGpu);
  EXPECT_TRUE(findings_.empty());
  Add("[ 2679.300490] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process blender pid "
      "10728 thread "
      "blender:cs0 pid 10762");
  const auto fault = Only<GpuFaultLine>();
  EXPECT_EQ(fault.vendor, "amd");
  EXPECT_EQ(fault.fault_class, FaultClass::kHang);
  EXPECT_EQ(fault.process_name, "blender");
  EXPECT_EQ(fault.pid, 10728U);
  EXPECT_EQ(fault.stamp_us, 2'679'300'365U);
}

TEST_F(KernelLogTest, AmdTimeoutInNewKernels) {
  Add("[  312.522683] amdgpu 0000:28:00.0: [drm] AMDGPU device coredump file has been created");
  Add("[  312.522692] amdgpu 0000:28:00.0: ring gfx_0.0.0 timeout, signaled seq=57638, emitted seq=57641");
  Add("[  312.522700] amdgpu 0000:28:00.0:  Process Web Content pid 2288 thread cosmic-com:cs0 pid 2316");
  const auto fault = Only<GpuFaultLine>();
  EXPECT_EQ(fault.pci_address, "0000:28:00.0");
  EXPECT_EQ(fault.process_name, "Web Content");
  EXPECT_EQ(fault.pid, 2288U);
}

TEST_F(KernelLogTest, DevicesAreNotMixedUp) {
  Add("[1.0] amdgpu 0000:28:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2");
  Add("[1.1] amdgpu 0000:29:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2");
  Add("[1.2] amdgpu 0000:28:00.0: amdgpu:  Process a pid 1 thread a pid 1");
  EXPECT_EQ(Only<GpuFaultLine>().pci_address, "0000:28:00.0");
  Add("[1.3] amdgpu 0000:29:00.0: amdgpu:  Process b pid 2 thread b pid 2");
  EXPECT_EQ(Only<GpuFaultLine>().process_name, "b");
}

TEST_F(KernelLogTest, DeviceOfTheRecordServesOldLines) {
  KernelRecord record =
      ParsePlainLine("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, but soft recovered");
  record.device = "+pci:0000:08:00.0";
  log_.Add(record, findings_);
  EXPECT_EQ(Only<GpuFaultLine>().pci_address, "0000:08:00.0");
}

TEST_F(KernelLogTest, WhatStaysAloneIsHandedOutAfterASecond) {
  Add("[1.0] amdgpu 0000:28:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2");
  EXPECT_EQ(log_.waiting_since_us(), 1'000'000U);
  log_.Expire(2'000'000, findings_);
  EXPECT_TRUE(findings_.empty());
  log_.Expire(2'000'001, findings_);
  EXPECT_EQ(Only<GpuFaultLine>().process_name, "");
  EXPECT_EQ(log_.waiting_since_us(), 0U);
}

TEST_F(KernelLogTest, AmdPageFaultOverThreeLines) {
  Add("[ 4778.915423] amdgpu 0000:c6:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3 "
      "pasid:32769)");
  Add("[ 4778.916081] amdgpu 0000:c6:00.0: amdgpu:  for process pt_main_thread pid 12924 thread "
      "pt_main_thread pid "
      "12924)");
  Add("[ 4778.916571] amdgpu 0000:c6:00.0: amdgpu:   in page starting at address 0x0000ae8570611000 from IH "
      "client 0x1b "
      "(UTCL2)");
  const auto fault = Only<GpuFaultLine>();
  EXPECT_EQ(fault.fault_class, FaultClass::kApplication);
  EXPECT_EQ(fault.process_name, "pt_main_thread");
  EXPECT_EQ(fault.pid, 12924U);
  EXPECT_EQ(fault.address, 0xae8570611000U);
}

TEST_F(KernelLogTest, AmdPageFaultWithProcessInline) {
  Add("[  629.844077] amdgpu 0000:0b:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770, "
      "for "
      "process python pid 1796 thread python pid 1796)");
  Add("[  629.844087] amdgpu 0000:0b:00.0: amdgpu:   in page starting at address 0x00007f5279bab000 from "
      "client 0x1b "
      "(UTCL2)");
  const auto fault = Only<GpuFaultLine>();
  EXPECT_EQ(fault.process_name, "python");
  EXPECT_EQ(fault.address, 0x7f5279bab000U);
}

TEST_F(KernelLogTest, AmdResets) {
  Add("amdgpu 0000:08:00.0: amdgpu: GPU reset begin!");
  EXPECT_TRUE(Only<GpuFaultLine>().consequence);
  Add("amdgpu 0000:08:00.0: amdgpu: GPU reset(2) succeeded!");
  EXPECT_EQ(Only<GpuFaultLine>().fault_class, FaultClass::kReset);
  Add("amdgpu 0000:08:00.0: amdgpu: GPU reset end with ret = -110");
  EXPECT_EQ(Only<GpuFaultLine>().code, -110);
  Add("amdgpu 0000:03:00.0: amdgpu: Ring comp_1.1.0 reset succeeded");
  EXPECT_EQ(Only<GpuFaultLine>().fault_class, FaultClass::kReset);
  EXPECT_EQ(Add("amdgpu 0000:44:00.0: amdgpu: ring sdma0 uses VM inv eng 12 on hub 0"), LineKind::kOther);
  EXPECT_EQ(Add("amdgpu 0000:03:00.0: amdgpu: MODE1 reset"), LineKind::kOther);
}

TEST_F(KernelLogTest, IntelHangs) {
  Add("22:39:31 kernel: i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:0020fffe, in xdg-desktop-por [1676]");
  const auto hang = Only<GpuFaultLine>();
  EXPECT_EQ(hang.vendor, "intel");
  EXPECT_EQ(hang.code, 0x0020fffe);
  EXPECT_EQ(hang.process_name, "xdg-desktop-por");
  EXPECT_EQ(hang.pid, 1676U);
  Add("[drm] GPU HANG: ecode 7:0:0x87c3ffff, reason: Ring hung, action: reset");
  EXPECT_EQ(Only<GpuFaultLine>().code, 0x87c3ffff);
  Add("[drm] GPU HANG: ecode 9:0:0x84dfbfff, in Xorg [713], reason: Hang on rcs0, action: reset");
  EXPECT_EQ(Only<GpuFaultLine>().pid, 713U);
  Add("i915 0000:00:02.0: [drm] Resetting rcs0 for preemption time out");
  EXPECT_EQ(Only<GpuFaultLine>().fault_class, FaultClass::kReset);
  Add("drm/i915: Resetting chip after gpu hang");
  EXPECT_EQ(Only<GpuFaultLine>().fault_class, FaultClass::kReset);
  EXPECT_EQ(Add("i915 0000:00:02.0: [drm] GT0: GUC: SLPC enabled"), LineKind::kOther);
}

TEST_F(KernelLogTest, XeLines) {
  Add("xe 0000:3d:00.0: [drm] Tile0: GT0: Engine reset: engine_class=ccs, logical_mask: 0x1, guc_id=9, "
      "state=0x29");
  EXPECT_EQ(Only<GpuFaultLine>().fault_class, FaultClass::kReset);
  Add("xe 0000:3d:00.0: [drm] Tile0: GT0: Timedout job: seqno=1523, lrc_seqno=1523, guc_id=9, flags=0x20 in "
      "python "
      "[2693]");
  const auto hang = Only<GpuFaultLine>();
  EXPECT_EQ(hang.fault_class, FaultClass::kHang);
  EXPECT_EQ(hang.process_name, "python");
  EXPECT_EQ(hang.pid, 2693U);
  Add("xe 0000:03:00.0: [drm] GT0: Timedout job: seqno=4294967169, lrc_seqno=4294967169, guc_id=2, flags=0x0 "
      "in no "
      "process [-1]");
  const auto nobody = Only<GpuFaultLine>();
  EXPECT_EQ(nobody.pid, 0U);
  EXPECT_EQ(nobody.process_name, "");
  Add("xe 0000:03:00.0: [drm] GT0: Timedout job: seqno=42, guc_id=2, flags=0x0");
  EXPECT_EQ(Only<GpuFaultLine>().pid, 0U);
  Add("xe 0000:03:00.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:03:00.0 as wedged.");
  EXPECT_EQ(Only<GpuFaultLine>().fault_class, FaultClass::kHang);
  EXPECT_EQ(Add("xe 0000:03:00.0: [drm] Xe device coredump has been created"), LineKind::kGpu);
  EXPECT_TRUE(findings_.empty());
}

TEST_F(KernelLogTest, OomKillOfACgroup) {
  EXPECT_EQ(Add("[706.2] bash invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"),
            LineKind::kOom);
  Add("[706.239359] "
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/limited,"
      "task_memcg=/limited/inner,task=python3,pid=8492,uid=0");
  EXPECT_TRUE(findings_.empty());
  Add("[706.239384] Memory cgroup out of memory: Killed process 8492 (python3) total-vm:221356kB, "
      "anon-rss:50688kB, "
      "file-rss:6648kB, shmem-rss:4kB, UID:0 pgtables:156kB oom_score_adj:0");
  const auto kill = Only<OomKillLine>();
  EXPECT_EQ(kill.pid, 8492U);
  EXPECT_EQ(kill.process_name, "python3");
  EXPECT_EQ(kill.constraint, "memcg");
  EXPECT_EQ(kill.cgroup, "/limited");
  EXPECT_EQ(kill.total_vm_bytes, 221356U * 1024);
  EXPECT_EQ(kill.anon_rss_bytes, 50688U * 1024);
  EXPECT_EQ(kill.file_rss_bytes, 6648U * 1024);
  EXPECT_EQ(kill.shmem_rss_bytes, 4U * 1024);
}

TEST_F(KernelLogTest, OomKillOfTheMachine) {
  Add("[1.0] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
      "task_memcg=/user.slice,task=a,b,pid=1,x,pid=15925,uid=1000");
  Add("[1.1] Out of memory: Killed process 15925 ((resolved)) total-vm:168424kB, anon-rss:4064kB, "
      "file-rss:3584kB, "
      "shmem-rss:0kB");
  const auto kill = Only<OomKillLine>();
  EXPECT_EQ(kill.process_name, "(resolved)");
  EXPECT_EQ(kill.constraint, "none");
  EXPECT_EQ(kill.cgroup, "/user.slice");
}

TEST_F(KernelLogTest, OomKillInOldKernels) {
  EXPECT_EQ(Add("Memory cgroup out of memory: Kill process 42453 (memcg_test_1) score 0 or sacrifice child"),
            LineKind::kOom);
  Add("Killed process 42453 (memcg_test_1), UID 0, total-vm:7296kB, anon-rss:96kB, file-rss:164kB, "
      "shmem-rss:0kB");
  const auto kill = Only<OomKillLine>();
  EXPECT_EQ(kill.pid, 42453U);
  EXPECT_EQ(kill.process_name, "memcg_test_1");
  EXPECT_EQ(kill.anon_rss_bytes, 96U * 1024);
}

TEST_F(KernelLogTest, OomKillWhoseSizesNeverCame) {
  Add("[1.0] "
      "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=0,cpuset=a,mems_allowed=0,global_oom,task_memcg=/"
      ",task=x,"
      "pid=7,uid=0");
  log_.Expire(9'000'000, findings_);
  const auto kill = Only<OomKillLine>();
  EXPECT_EQ(kill.pid, 7U);
  EXPECT_EQ(kill.constraint, "cpuset");
  EXPECT_FALSE(kill.has_sizes);
}

TEST_F(KernelLogTest, CrashHints) {
  EXPECT_EQ(Add("VKRenderThread[13255]: segfault at 18 ip 00007f8dcd49477c sp 00007f8ed7f6acb0 error 4 in "
                "libclient.so[1f1977c,7f8dcc1dd000+3649000] likely on CPU 2 (core 2, socket 0)"),
            LineKind::kCrash);
  const auto segfault = Only<CrashHintLine>();
  EXPECT_EQ(segfault.tid, 13255U);
  EXPECT_EQ(segfault.thread_name, "VKRenderThread");
  EXPECT_EQ(segfault.address, 0x18U);
  Add("traps: my [odd] name[77] general protection fault ip:55d0 sp:7ffc error:0 in x[400000+1000]");
  const auto trap = Only<CrashHintLine>();
  EXPECT_EQ(trap.tid, 77U);
  EXPECT_EQ(trap.thread_name, "my [odd] name");
  Add("traps: python3[123] trap invalid opcode ip:7f00 sp:7ffd error:0 in libx.so[7f00+1000]");
  EXPECT_EQ(Only<CrashHintLine>().tid, 123U);
  Add("python3: potentially unexpected fatal signal 6.");
  EXPECT_EQ(Only<CrashHintLine>().thread_name, "python3");
  EXPECT_EQ(Add("x[y]: segfault at 1"), LineKind::kOther);
}

TEST_F(KernelLogTest, HardwareLines) {
  EXPECT_EQ(Add("nvidia 0000:07:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, "
                "(Transmitter ID)"),
            LineKind::kHardware);
  EXPECT_EQ(
      Add("pcieport 0000:00:03.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer"),
      LineKind::kHardware);
  EXPECT_EQ(Add("mce: [Hardware Error]: Machine check events logged"), LineKind::kHardware);
  EXPECT_EQ(Add("EDAC MC1: 1 CE memory scrubbing error on CPU_SrcID#1_Ha#0_Chan#0_DIMM#0 (channel:0 slot:0)"),
            LineKind::kHardware);
  EXPECT_EQ(Add("pcieport 0000:00:03.0: AER: device recovery failed"), LineKind::kHardware);
  EXPECT_EQ(Add("EDAC igen6: v2.5.1"), LineKind::kOther);
  EXPECT_TRUE(findings_.empty());
  Add("nvidia 0000:07:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, "
      "(Requester ID)");
  const auto fault = Only<GpuFaultLine>();
  EXPECT_EQ(fault.vendor, "nvidia");
  EXPECT_EQ(fault.fault_class, FaultClass::kLink);
  EXPECT_EQ(fault.pci_address, "0000:07:00.0");
}

TEST_F(KernelLogTest, WhatWaitsIsBounded) {
  for (int pid = 1; pid <= 100; ++pid) {
    Add("[1.0] oom-kill:constraint=CONSTRAINT_NONE,task=x,pid=" + std::to_string(pid) + ",uid=0");
  }
  EXPECT_EQ(findings_.size(), 68U);
}

TEST(PciAddress, OneShapeForAll) {
  EXPECT_EQ(NormalisePciAddress("PCI:0000:3B:00"), "0000:3b:00.0");
  EXPECT_EQ(NormalisePciAddress("00000000:3b:00.1"), "0000:3b:00.1");
  EXPECT_EQ(NormalisePciAddress("10000:01:00.0"), "10000:01:00.0");
  for (const std::string_view bad :
       {"", "3b:00.0", "0000:3b:zz.0", "0000:3b:00.00", "a:b:c", "0000:3b:00."}) {
    EXPECT_EQ(NormalisePciAddress(bad), "") << bad;
  }
}

}  // namespace
}  // namespace smeltr::crash

# SPDX-License-Identifier: BSD-2-Clause
"""Why a row is behind, in the three languages; shown on the page only where the data say that it is."""

INJECTION = (
    "Under this emulator keelOS pays one more exit for each interrupt that it injects (kind nmi): QEMU's TCG would else deliver the "
    "vector a second time. KVM does not guard against that. Real CPUs do not need it; the counts without "
    "the kind nmi are those that hardware has.",
    "在此模拟器中，keelOS 每注入一次中断就多付出一次退出（种类 nmi）：否则 QEMU 的 TCG 会把同一向量投递两次。KVM 没有这种防护。"
    "真实 CPU 不需要它；去掉 nmi 之后的计数才是硬件上的计数。",
    "このエミュレーターでは、keelOS は割り込みを 1 つ注入するごとに exit を 1 つ余分に払います（種類 nmi）。そうしないと QEMU の TCG が"
    "同じベクターを 2 度届けるためです。KVM はこれを防ぎません。実 CPU では不要で、nmi を除いた回数が実機の回数です。")
NET = (
    "keelvm moves frames between the guest and a tap with two threads in root and one system call a frame; vhost-net does it in the "
    "kernel. More interrupts and kicks a MiB follow. A switch process with batches is planned in its place.",
    "keelvm 用 root 中的两个线程在虚拟机与 tap 之间搬运数据帧，每帧一次系统调用；vhost-net 在内核中完成。因此每 MiB 的中断与 kick 更多。"
    "计划以成批处理的交换进程取代。",
    "keelvm は root の 2 つのスレッドで、フレームごとに 1 回のシステムコールを使ってゲストと tap の間を運びます。vhost-net はカーネル内で"
    "行います。そのため MiB あたりの割り込みと kick が増えます。まとめて処理するスイッチプロセスに置き換える予定です。")
DISK = (
    "A request takes a doorbell, a wake-up of keelvm's thread in root, and an interrupt back; root's vCPU and the guest's share two "
    "CPUs, so each step may wait for a switch.",
    "一次请求需要一次门铃、唤醒 root 中 keelvm 的线程、再回送一次中断；root 的 vCPU 与虚拟机共用两个 CPU，每一步都可能等待切换。",
    "要求 1 つにドアベル、root の keelvm スレッドの起床、戻りの割り込みが要ります。root の vCPU とゲストが 2 つの CPU を分け合うので、"
    "各段で切り替え待ちがあり得ます。")

PAUSE = (
    "With two VMs four vCPUs and root share two CPUs. A vCPU that spins exits at each PAUSE (kind pause) while another VM waits for its "
    "CPU, but is not made to give it up before its slice ends. KVM does not trap PAUSE on this CPU.",
    "两台虚拟机的四个 vCPU 与 root 共用两个 CPU。当另一台虚拟机在等待其 CPU 时，自旋的 vCPU 每次 PAUSE 都会退出（种类 pause），却不会在"
    "时间片结束前让出 CPU。KVM 在此 CPU 上不拦截 PAUSE。",
    "VM が 2 つでは、4 つの vCPU と root が 2 つの CPU を分け合います。別の VM が CPU を待つ間、スピンする vCPU は PAUSE のたびに exit します"
    "（種類 pause）が、持ち時間が終わるまで CPU を手放しません。KVM はこの CPU では PAUSE をトラップしません。")

# Each reason, and the rows that it is one for.
WHY = [
    (INJECTION, {"7zip", "sysbench-cpu", "sysbench-memory", "redis-build", "sched-pipe", "randread-qd32", "randwrite-qd32",
                 "randread-qd1", "randread-qd1-p99", "seqread-qd8", "seqwrite-qd8", "other-to", "other-from", "vm-to", "vm-from",
                 "vm-to-4", "vm-from-4"}),
    (DISK, {"randread-qd32", "randwrite-qd32", "randread-qd1", "randread-qd1-p99", "seqread-qd8", "seqwrite-qd8"}),
    (NET, {"other-to", "other-from", "vm-to", "vm-from", "vm-to-4", "vm-from-4"}),
    (PAUSE, {"vm-to", "vm-from", "vm-to-4", "vm-from-4"}),
]

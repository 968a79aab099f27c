# SPDX-License-Identifier: BSD-2-Clause
"""Every sentence of the comparison's page, in English, Chinese and Japanese."""

LANGUAGES = {"en": "English", "zh": "中文", "ja": "日本語"}
HTML_LANG = {"en": "en", "zh": "zh-Hans", "ja": "ja"}

TEXTS = {
    "title": ("keelOS next to KVM", "keelOS 与 KVM 的对比", "keelOS と KVM の比較"),
    "lead": (
        "The same server, the same guest disk image, the same work: keelOS on one side, Debian with KVM and QEMU, set up as its "
        "experts do, on the other.",
        "同一台服务器、同一个虚拟机磁盘镜像、同样的工作：一边是 keelOS，另一边是按专家方式调优的 Debian + KVM + QEMU。",
        "同じサーバー、同じゲストのディスクイメージ、同じ仕事。一方は keelOS、他方は専門家の流儀で設定した Debian + KVM + QEMU。"),
    "verdict": (
        "{ahead} rows ahead of KVM, {behind} behind, {noise} of these {total} within the noise.",
        "{total} 行中：领先 KVM {ahead} 行，落后 {behind} 行；其中 {noise} 行的差距在噪声之内。",
        "{total} 行のうち、KVM より上が {ahead} 行、下が {behind} 行。うち {noise} 行の差はばらつきの範囲内。"),
    "missing": ("Not measured yet: {rows}.", "尚未测量：{rows}。", "未測定：{rows}。"),
    "emulated_head": ("What these times are worth", "这些时间的意义", "この時間の意味"),
    "emulated": (
        "The server is emulated (QEMU's TCG with AMD's SVM). There, a switch between guest and hypervisor costs some 40 times what "
        "silicon takes, and plain code 5 to 20 times. So the times below exaggerate whatever exits and flatter whoever exits less; "
        "they are not a forecast for real hardware. What travels to real hardware are the counts: how many exits, interrupts and "
        "switches one unit of work takes. Nothing is scaled or guessed.",
        "服务器是模拟的（QEMU 的 TCG，带 AMD SVM）。在其中，虚拟机与管理程序之间的一次切换约为真实芯片的 40 倍，普通代码为 5 到 20 "
        "倍。因此下面的时间会夸大退出（exit）的代价，对退出少的一方有利；它们不是对真实硬件的预测。能够用于真实硬件的是计数："
        "每单位工作需要多少次退出、中断和切换。没有任何数字经过换算或猜测。",
        "サーバーはエミュレーション（AMD SVM 付きの QEMU TCG）です。そこではゲストとハイパーバイザーの切り替えが実チップの約 40 "
        "倍、普通のコードが 5～20 倍かかります。そのため以下の時間は exit の代償を誇張し、exit の少ない側に有利です。実機の予測では"
        "ありません。実機に持ち越せるのは回数、すなわち仕事 1 単位に要する exit、割り込み、切り替えの数です。換算や推測は一切して"
        "いません。"),
    "metal": (
        "The times were measured on real hardware.", "时间在真实硬件上测得。", "時間は実機で測定しました。"),
    "group_compute": ("Computing", "计算", "計算"),
    "group_disk": ("Disk", "磁盘", "ディスク"),
    "group_network": ("Network", "网络", "ネットワーク"),
    "chart": (
        "keelOS as a share of KVM; longer is better in every row. The dashed line is KVM at 100 %; ≈ is a difference within "
        "the noise.",
        "keelOS 相对于 KVM 的比例；每行都是越长越好。虚线为 KVM（100 %）；≈ 表示差距在噪声之内。",
        "KVM に対する keelOS の割合。どの行も長いほど良い。破線が KVM（100 %）、≈ はばらつきの範囲内の差。"),
    "behind": ("behind", "落后", "下回る"),
    "in_noise": ("within noise", "噪声之内", "ばらつき内"),
    "table_head": ("All rows", "全部结果", "全行"),
    "table_note": (
        "The median of {runs} runs a side, the sides in turns; single runs in brackets. A difference is within the noise where the "
        "two sides' runs overlap or differ by less than 20 %, which is what the same side differs from itself on a quiet machine.",
        "每边 {runs} 次运行取中位数，两边交替进行；括号内为各次结果。若两边结果重叠，或相差不到 20 %（安静机器上同一边自身的波动），"
        "则视为噪声之内。",
        "両者を交互に各 {runs} 回測った中央値、括弧内は各回の値。両者の値が重なるか差が 20 % 未満（静かな機械での同じ側どうしの差）な"
        "ら、ばらつき内とします。"),
    "row": ("Row", "项目", "項目"),
    "unit": ("Unit", "单位", "単位"),
    "better": ("Better", "方向", "良い方"),
    "higher": ("higher is better", "越高越好", "高いほど良い"),
    "lower": ("lower is better", "越低越好", "低いほど良い"),
    "ratio": ("keelOS / KVM", "keelOS / KVM", "keelOS / KVM"),
    "how": ("Where from", "来源", "出所"),
    "how_emulated": ("measured in the emulator", "在模拟器中测得", "エミュレーターで測定"),
    "how_metal": ("measured on hardware", "在硬件上测得", "実機で測定"),
    "how_native": ("measured natively", "原生测得", "ネイティブで測定"),
    "how_counted": ("counted", "计数", "計数"),
    "change": ("Since last", "较上次", "前回比"),
    "none": ("–", "–", "–"),
    "counts_head": ("Counts per unit of work", "每单位工作的计数", "仕事 1 単位あたりの回数"),
    "counts_note": (
        "Counted, not timed. Each pair is keelOS / KVM. Exits: the guest's CPU leaves the guest. User exits: answered by keelvm or "
        "QEMU. Switches: context switches of root or of the host. KVM's IPIs and kicks come from one more run with KVM's "
        "tracepoints on. A kick is the guest's call to a device.",
        "这是计数，不是计时。每对为 keelOS / KVM。退出：虚拟 CPU 离开虚拟机。用户退出：由 keelvm 或 QEMU 应答。切换：root 或宿主机"
        "的上下文切换。KVM 的 IPI 与 kick 来自另一次打开 KVM 跟踪点的运行。kick 是虚拟机对设备的通知。",
        "計時ではなく計数です。各組は keelOS / KVM。exit：ゲストの CPU がゲストを離れること。ユーザー exit：keelvm または QEMU が答える"
        "もの。切り替え：root またはホストのコンテキストスイッチ。KVM の IPI と kick は KVM のトレースポイントを有効にした別の 1 回から。"
        "kick はゲストからデバイスへの呼び出しです。"),
    "work": ("Unit of work", "工作单位", "仕事の単位"),
    "exits": ("Exits", "退出", "exit"),
    "interrupts": ("Interrupts injected", "注入的中断", "注入した割り込み"),
    "ipis": ("IPIs", "IPI", "IPI"),
    "halts": ("Halts", "HLT", "HLT"),
    "kicks": ("Kicks", "kick", "kick"),
    "user_exits": ("User exits", "用户退出", "ユーザー exit"),
    "switches": ("Switches", "切换", "切り替え"),
    "kinds": ("Exits by kind, per unit of work", "按种类的退出（每单位工作）", "種類別の exit（仕事 1 単位あたり）"),
    "kind": ("Kind", "种类", "種類"),
    "native_head": ("Measured natively: the disk's data path", "原生测得：磁盘数据路径", "ネイティブで測定：ディスクのデータ経路"),
    "native_note": (
        "keel-blk, which is keelOS' disk engine, beside QEMU's storage daemon, driven by the same vhost-user front end on this machine "
        "without emulation, in turns. No VM takes part. Requests per second; the ratio is the median of pairs, with its range.",
        "keelOS 的磁盘引擎 keel-blk 与 QEMU 存储守护进程，由同一个 vhost-user 前端在本机上（无模拟）交替驱动，没有虚拟机参与。单位为"
        "每秒请求数；比值为各对的中位数及范围。",
        "keelOS のディスクエンジン keel-blk と QEMU の storage daemon を、同じ vhost-user フロントエンドでこの機械の上（エミュレーション"
        "なし）で交互に動かしたもの。VM は使いません。毎秒の要求数。比は対の中央値とその範囲。"),
    "native_none": (
        "No native measurement belongs to this version's data. `make bench-disk` makes one.",
        "此版本的数据中没有原生测量结果。可用 make bench-disk 生成。",
        "この版のデータにはネイティブ測定がありません。make bench-disk で測れます。"),
    "native_net_head": ("Measured natively: the network's data path", "原生测得：网络数据路径", "ネイティブで測定：ネットワークのデータ経路"),
    "native_net_note": (
        "Frames between two guests' drivers on two taps of one bridge, without emulation: through virtqueues and keelOS' network engine, "
        "and in turns through the bare taps, which is the least that any program does that serves a card by a tap. Not a comparison "
        "with KVM. The ratio is the median of pairs, with its range; above 100 % keelOS is better than the bare taps.",
        "同一网桥的两个 tap 上两个客户机驱动之间的帧（无模拟）：一侧经过 virtqueue 与 keelOS 的网络引擎，另一侧交替地直接经过 tap，"
        "即任何用 tap 提供网卡的程序至少要做的工作。这不是与 KVM 的比较。比值为各对的中位数及范围；高于 100 % 表示 keelOS 优于裸 tap。",
        "一つのブリッジにつないだ二つの tap で、二つのゲストのドライバーの間を流れるフレーム（エミュレーションなし）。virtqueue と keelOS の"
        "ネットワークエンジンを通る場合と、tap だけを通る場合を交互に測定。後者は tap で NIC を提供するプログラムに必要な最小限の仕事です。"
        "KVM との比較ではありません。比は対の中央値とその範囲。100 % より上なら keelOS が tap だけより良い値です。"),
    "native_net_none": (
        "No native measurement of the network belongs to this version's data. `make bench-net` makes one.",
        "此版本的数据中没有网络的原生测量结果。可用 make bench-net 生成。",
        "この版のデータにはネットワークのネイティブ測定がありません。make bench-net で測れます。"),
    "native_net_bare": ("Bare taps", "裸 tap", "tap のみ"),
    "native_load": ("Other programs used {cpus} CPUs meanwhile.", "期间其他程序占用了 {cpus} 个 CPU。",
                    "その間ほかのプログラムが CPU {cpus} 個分を使いました。"),
    "setup_head": ("Set-up", "环境", "環境"),
    "setup_guest": ("Guest", "虚拟机", "ゲスト"),
    "setup_machine": ("Server", "服务器", "サーバー"),
    "setup_emulated_by": ("Emulated by", "模拟环境", "エミュレーター"),
    "setup_load": (
        "What else ran on the machine that emulates, median and most over the runs: {median} and {most} CPUs.",
        "进行模拟的机器上其他程序的占用，各次运行的中位数与最大值：{median} 与 {most} 个 CPU。",
        "エミュレーションする機械でほかに動いていたもの、中央値と最大：CPU {median} 個と {most} 個。"),
    "setup_failures": (
        "Boots that were ended and repeated: keelOS {keel}, KVM {kvm}. The emulator is not reliable with nested guests.",
        "被终止并重做的启动次数：keelOS {keel} 次，KVM {kvm} 次。模拟器运行嵌套虚拟机时并不可靠。",
        "打ち切ってやり直した起動：keelOS {keel} 回、KVM {kvm} 回。エミュレーターは入れ子のゲストでは信頼できません。"),
    "setup_commands": ("The guests as they were started", "虚拟机的启动方式", "ゲストの起動方法"),
    "setup_sizes": (
        "The rows' commands", "各项目的命令", "各項目のコマンド"),
    "why_head": ("Why some numbers are behind", "为什么有些数字落后", "下回る数字がある理由"),
    "why_none": ("No row is behind.", "没有落后的项目。", "下回る項目はありません。"),
    "doing_head": ("What is being done", "正在做什么", "取り組んでいること"),
    "doing": (
        "docs/compare.md goes through the rows one by one: what the counts say, what was mended, and what remains.",
        "docs/compare.md 逐行说明：计数说明了什么、已修复什么、还剩什么。",
        "docs/compare.md に 1 行ずつ、回数から何が分かるか、何を直したか、何が残るかを書いています。"),
    "history_head": ("History", "历史", "履歴"),
    "history_note": (
        "keelOS / KVM of each version, newest first.", "各版本的 keelOS / KVM，最新在前。", "各版の keelOS / KVM、新しい順。"),
    "version": ("Version", "版本", "版"),
    "raw_head": ("Raw data", "原始数据", "生データ"),
    "raw_note": (
        "Every run with its command, counts and the program's own output:",
        "每次运行的命令、计数与程序原始输出：", "各回のコマンド、回数、プログラムの出力："),
    "short": (
        "These are shortened runs, made to see that all works. They are no comparison.",
        "这是缩短的运行，只用于确认一切可用，不能作为对比。", "動作確認のための短縮した測定です。比較ではありません。"),
    "row_7zip": ("7-Zip benchmark", "7-Zip 基准", "7-Zip ベンチマーク"),
    "row_sysbench-cpu": ("sysbench, CPU", "sysbench CPU", "sysbench CPU"),
    "row_sysbench-memory": ("sysbench, memory", "sysbench 内存", "sysbench メモリ"),
    "row_redis-build": ("Building Redis, -j4", "编译 Redis（-j4）", "Redis のビルド（-j4）"),
    "row_sched-pipe": ("perf bench sched pipe", "perf bench sched pipe", "perf bench sched pipe"),
    "row_randread-qd32": ("4K random read, QD32", "4K 随机读，QD32", "4K ランダム読み、QD32"),
    "row_randwrite-qd32": ("4K random write, QD32", "4K 随机写，QD32", "4K ランダム書き、QD32"),
    "row_randread-qd1": ("4K random read, QD1", "4K 随机读，QD1", "4K ランダム読み、QD1"),
    "row_randread-qd1-p99": ("4K random read, QD1, p99", "4K 随机读 QD1，p99", "4K ランダム読み QD1、p99"),
    "row_seqread-qd8": ("1M sequential read, QD8", "1M 顺序读，QD8", "1M 連続読み、QD8"),
    "row_seqwrite-qd8": ("1M sequential write, QD8", "1M 顺序写，QD8", "1M 連続書き、QD8"),
    "row_other-to": ("VM to another machine", "虚拟机到另一台机器", "VM から別の機械へ"),
    "row_other-from": ("Another machine to VM", "另一台机器到虚拟机", "別の機械から VM へ"),
    "row_vm-to": ("VM to VM, one stream", "虚拟机到虚拟机，单流", "VM から VM、1 本"),
    "row_vm-from": ("VM from VM, one stream", "反方向，单流", "逆向き、1 本"),
    "row_vm-to-4": ("VM to VM, four streams", "虚拟机到虚拟机，四流", "VM から VM、4 本"),
    "row_vm-from-4": ("VM from VM, four streams", "反方向，四流", "逆向き、4 本"),
}


def text(language, key, **values):
    """A sentence, with values put in its places."""
    return TEXTS[key][list(LANGUAGES).index(language)].format(**values)

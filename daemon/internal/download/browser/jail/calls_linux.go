package jail

import (
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// forbidden are system calls that fail. With a proper kernel and user, Landlock or the lack of a
// capability refuses some of them as well.
var forbidden = strings.Fields(`
	socket connect bind listen accept accept4
	io_uring_setup io_uring_enter io_uring_register
	ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd
	bpf perf_event_open userfaultfd keyctl add_key request_key
	unshare setns mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr
	open_by_handle_at name_to_handle_at fanotify_init
	init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl quotactl_fd
	iopl ioperm modify_ldt settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname syslog vhangup
	shmget semget msgget mq_open`)

// namespaces are the flags of clone for new namespaces, which give no rights outside, but expose
// much of the kernel.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Offsets in struct seccomp_data; of the arguments, the lower half.
const (
	offNumber = 0
	offArch   = 4
	offFirst  = 16
	offSecond = 24
)

// forbidCalls loads the filter of system calls, for all threads. It lists what is forbidden,
// because nobody knows what the next version of a browser calls. The library of package script/jail
// cannot do that: it would allow all calls for another processor.
func forbidCalls() error {
	program, err := filter()
	if err != nil {
		return err
	}
	raw, err := bpf.Assemble(program)
	if err != nil {
		return err
	}
	code := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	loaded := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&loaded)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return errno
	}
	if thread != 0 { // a thread that has another filter
		return unix.ESRCH
	}
	return nil
}

// filter is the program that decides on each call.
func filter() ([]bpf.Instruction, error) {
	here, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	last := 0
	for _, number := range here.SyscallNames {
		last = max(last, number)
	}
	fails := func(e unix.Errno) bpf.Instruction {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)}
	}
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(here.ID), SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}, // a call in the way of another processor
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		// Calls unknown here, and on amd64 those of its second numbering, do not exist.
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: uint32(last), SkipTrue: 1},
		fails(unix.ENOSYS),
	}
	when := func(name string, then ...bpf.Instruction) {
		if number, ok := here.SyscallNames[name]; ok {
			program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(number), SkipTrue: uint8(len(then))})
			program = append(program, then...)
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(forbidden))) {
		when(name, fails(unix.EACCES))
	}
	when("clone3", fails(unix.ENOSYS)) // its flags cannot be seen here; libraries then use clone
	when("clone",
		bpf.LoadAbsolute{Off: offFirst, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaces, SkipFalse: 1},
		fails(unix.EPERM),
		allow)
	when("socketpair",
		bpf.LoadAbsolute{Off: offFirst, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_UNIX, SkipTrue: 2},
		bpf.LoadAbsolute{Off: offSecond, Size: 4},
		// Only stream and packet sockets: a datagram could be sent to a socket of another process.
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.SOCK_DGRAM, SkipFalse: 1},
		fails(unix.EACCES),
		allow)
	return append(program, allow), nil
}

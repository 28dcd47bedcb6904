package jail

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/landlock-lsm/go-landlock/landlock"
	landlockcall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// threads is how many run at once: one of the code, and one of the runtime.
const threads = 2

// maxFiles is how many descriptors may exist: the three that it has, and those of the runtime.
const maxFiles = 16

// Enter jails the process. After an error it may be partly jailed, and must end: it must not run
// the code that the jail is for. Descriptors other than 0, 1 and 2 are closed.
func Enter(l Limits) error {
	if withC {
		return fmt.Errorf("%w: the program was built with cgo, and its C library opens files at any time: build it with CGO_ENABLED=0", ErrUnsupported)
	}
	runtime.GOMAXPROCS(min(threads, runtime.NumCPU())) // once it is set, the runtime no longer reads files to determine it
	if err := closeOthers(); err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	if err := limit(l); err != nil {
		return err
	}
	if err := limitSpace(l); err != nil {
		return err
	}
	if err := forbidFiles(); err != nil {
		return err
	}
	filter := seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: policy(os.Getpid())}
	if err := seccomp.LoadFilter(filter); err != nil {
		return fmt.Errorf("%w: seccomp: %w", ErrUnsupported, err)
	}
	return nil
}

// closeOthers closes inherited descriptors. The runtime's own descriptors stay: they refer to no file.
func closeOthers() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= 2 {
			continue
		}
		to, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err != nil { // the one used to read the folder
			continue
		}
		if to == "anon_inode:[eventpoll]" || to == "anon_inode:[eventfd]" {
			continue
		}
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	return nil
}

func limit(l Limits) error {
	seconds := uint64((l.CPU + time.Second - 1) / time.Second)
	for _, r := range []struct {
		name     string
		resource int
		soft     uint64
		hard     uint64
	}{
		{"core", unix.RLIMIT_CORE, 0, 0},
		{"fsize", unix.RLIMIT_FSIZE, 0, 0},
		{"memlock", unix.RLIMIT_MEMLOCK, 0, 0},
		{"msgqueue", unix.RLIMIT_MSGQUEUE, 0, 0},
		{"nofile", unix.RLIMIT_NOFILE, maxFiles, maxFiles},
		{"data", unix.RLIMIT_DATA, uint64(l.Memory), uint64(l.Memory)},
		{"cpu", unix.RLIMIT_CPU, seconds, seconds + 1}, // at the first the runtime is told, at the second the kernel kills
	} {
		// From package syscall, so that the runtime does not restore its own limit of files.
		if err := syscall.Setrlimit(r.resource, &syscall.Rlimit{Cur: r.soft, Max: r.hard}); err != nil {
			return fmt.Errorf("limit %s: %w", r.name, err)
		}
	}
	return nil
}

// arena is by how much the Go runtime reserves address space for its heap.
const arena = 64 << 20

// limitSpace bounds the address space: what the process has now, which is mostly reserved by the runtime and
// empty, and its memory. RLIMIT_DATA counts private writable memory only: not what is shared, grows
// down, or was made read-only after it was written, and no page tables of what is only read.
func limitSpace(l Limits) error {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), " ")
	pages, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return fmt.Errorf("/proc/self/statm: %w", err)
	}
	bytes := uint64(pages)*uint64(os.Getpagesize()) + uint64(l.Memory) + arena
	if err := syscall.Setrlimit(unix.RLIMIT_AS, &syscall.Rlimit{Cur: bytes, Max: bytes}); err != nil {
		return fmt.Errorf("limit as: %w", err)
	}
	return nil
}

func landlockIs() error {
	if version, err := landlockcall.LandlockGetABIVersion(); err != nil || version < 1 {
		return fmt.Errorf("%w: the kernel has no Landlock: want Linux 5.13 or newer, with \"landlock\" among the names in /sys/kernel/security/lsm", ErrUnsupported)
	}
	return nil
}

// forbidFiles takes away all files, and whatever else the kernel's Landlock can take.
func forbidFiles() error {
	if err := landlockIs(); err != nil {
		return err
	}
	if err := landlock.V7.BestEffort().Restrict(); err != nil {
		return fmt.Errorf("%w: Landlock: %w", ErrUnsupported, err)
	}
	return nil
}

// Flags of clone with which the runtime makes a thread, and those that it adds on amd64.
const (
	thread    = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD
	threadTLS = thread | unix.CLONE_SETTLS
)

// uncounted are the flags of mmap for memory that RLIMIT_DATA does not count: shared, which may also be left
// behind, and like a stack.
const uncounted = unix.MAP_SHARED | unix.MAP_GROWSDOWN

// policy allows what the runtime needs to compute, to read and to write; any other call kills the process.
func policy(pid int) seccomp.Policy {
	where := func(name string, argument uint32, is seccomp.Operation, value uint64) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{{Argument: argument, Operation: is, Value: value}}}
	}
	names := strings.Fields(`read write close fcntl
		munmap madvise mincore brk
		futex nanosleep clock_nanosleep clock_gettime gettimeofday sched_yield sched_getaffinity restart_syscall
		rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack
		getpid gettid getrandom set_robust_list rseq
		epoll_create1 epoll_ctl epoll_pwait eventfd2
		timer_create timer_settime timer_delete setitimer
		exit exit_group`)
	return seccomp.Policy{DefaultAction: seccomp.ActionKillProcess, Syscalls: []seccomp.SyscallGroup{
		{Action: seccomp.ActionAllow, Names: names, NamesWithCondtions: []seccomp.NameWithConditions{
			{Name: "mmap", Conditions: seccomp.ArgumentConditions{
				{Argument: 2, Operation: seccomp.BitsNotSet, Value: unix.PROT_EXEC},
				{Argument: 3, Operation: seccomp.BitsNotSet, Value: uncounted},
			}},
			where("mprotect", 2, seccomp.BitsNotSet, unix.PROT_EXEC),
			where("clone", 0, seccomp.Equal, thread),
			where("clone", 0, seccomp.Equal, threadTLS),
			where("tgkill", 0, seccomp.Equal, uint64(pid)),
			where("prctl", 0, seccomp.Equal, unix.PR_SET_VMA),
			where("prlimit64", 2, seccomp.Equal, 0), // to read, not to change
		}},
	}}
}

package jail

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

// Become jails the process and replaces it by an interpreter, which keeps descriptors 0, 1 and 2.
// The interpreter can open the given files for reading, can start only itself, and has the limits
// of the process that it replaces. Become returns only with an error; the process must then end.
func Become(l Limits, i Interpreter) error {
	if err := closeOthers(); err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	if err := limit(l); err != nil {
		return err
	}
	if err := landlockIs(); err != nil {
		return err
	}
	const list, read, run = landlock.AccessFSSet(unix.LANDLOCK_ACCESS_FS_READ_DIR), landlock.AccessFSSet(unix.LANDLOCK_ACCESS_FS_READ_FILE), landlock.AccessFSSet(unix.LANDLOCK_ACCESS_FS_EXECUTE)
	if err := landlock.V7.BestEffort().Restrict(landlock.PathAccess(list|read, i.Dirs...), landlock.PathAccess(read|run, i.Files...)); err != nil {
		return fmt.Errorf("%w: Landlock: %w", ErrUnsupported, err)
	}
	policy, err := interpreterPolicy(os.Getpid())
	if err != nil {
		return err
	}
	if err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: policy}); err != nil {
		return fmt.Errorf("%w: seccomp: %w", ErrUnsupported, err)
	}
	return fmt.Errorf("exec %s: %w", i.Path, syscall.Exec(i.Path, i.Args, []string{"LC_ALL=C.UTF-8"}))
}

// closeOnExec is FIOCLEX of asm-generic/ioctls.h.
const closeOnExec = 0x5451

// interpreterPolicy is the policy for code in Go, plus what a C program needs to start and to read
// its library. Landlock determines which files these are, and that it can start only itself.
func interpreterPolicy(pid int) (seccomp.Policy, error) {
	p := policy(pid)
	info, err := arch.GetInfo("")
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	names := strings.Fields(`execve lseek pread64 readv writev dup getdents64 getcwd readlink readlinkat access faccessat faccessat2
		stat fstat lstat newfstatat statx mremap arch_prctl set_tid_address uname sysinfo
		getuid geteuid getgid getegid getppid getrusage times clock_getres poll ppoll`)
	names = slices.DeleteFunc(names, func(name string) bool { _, is := info.SyscallNames[name]; return !is }) // each processor has its own
	group := &p.Syscalls[0]
	group.Names = append(group.Names, names...)
	with := func(name string, argument uint32, is seccomp.Operation, value uint64) {
		group.NamesWithCondtions = append(group.NamesWithCondtions, seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{{Argument: argument, Operation: is, Value: value}}})
	}
	with("openat", 2, seccomp.BitsNotSet, unix.O_WRONLY|unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC|unix.O_APPEND)
	with("mmap", 2, seccomp.Equal, unix.PROT_READ|unix.PROT_EXEC) // libraries; never writable memory
	with("ioctl", 1, seccomp.Equal, unix.TCGETS)                  // to see whether it is a terminal
	with("ioctl", 1, seccomp.Equal, closeOnExec)
	return p, nil
}

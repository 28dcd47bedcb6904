package jail

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/net/bpf"
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
	space, err := i.space(l)
	if err != nil {
		return err
	}
	filter, err := compiled(policy)
	if err != nil {
		return err
	}
	return becomeWithin(space, filter, i)
}

// compiled is a policy as the kernel takes it.
func compiled(p seccomp.Policy) ([]syscall.SockFilter, error) {
	instructions, err := p.Assemble()
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(instructions)
	if err != nil {
		return nil, err
	}
	filter := make([]syscall.SockFilter, len(raw))
	for n, r := range raw {
		filter[n] = syscall.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return filter, nil
}

// becomeWithin bounds the address space, loads the filter and replaces the process. The bound is less than this
// process has, so that from there on the runtime gets no memory: only raw system calls follow.
func becomeWithin(space int64, filter []syscall.SockFilter, i Interpreter) error {
	runtime.LockOSThread()
	if err := seccomp.SetNoNewPrivs(); err != nil {
		return fmt.Errorf("%w: seccomp: %w", ErrUnsupported, err)
	}
	path, err := syscall.BytePtrFromString(i.Path)
	if err != nil {
		return err
	}
	args, err := syscall.SlicePtrFromStrings(i.Args)
	if err != nil {
		return err
	}
	environment, err := syscall.SlicePtrFromStrings([]string{"LC_ALL=C.UTF-8"})
	if err != nil {
		return err
	}
	program := &syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	bound := &unix.Rlimit{Cur: uint64(space), Max: uint64(space)}
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)

	step, thread := "limit as", uintptr(0)
	_, _, failed := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_AS, uintptr(unsafe.Pointer(bound)), 0, 0, 0)
	if failed == 0 {
		step = "seccomp"
		thread, _, failed = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(program)))
	}
	if thread != 0 { // it has another filter, and nothing was loaded
		failed = unix.ESRCH
	}
	if failed == 0 {
		step = "exec"
		_, _, failed = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&args[0])), uintptr(unsafe.Pointer(&environment[0])))
	}
	return fmt.Errorf("%s %s: %w", step, i.Path, failed)
}

// startingSpace is what an interpreter needs besides its files and its memory: its stack, and what the kernel maps.
const startingSpace = 32 << 20

// space is the address space of the interpreter in bytes: memory, and all of its files.
func (i Interpreter) space(l Limits) (int64, error) {
	bytes := l.Memory + startingSpace
	for _, name := range i.Files {
		info, err := os.Stat(name)
		if err != nil {
			return 0, err
		}
		bytes += info.Size()
	}
	return bytes, nil
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
	file := func(protection, flags uint64) {
		group.NamesWithCondtions = append(group.NamesWithCondtions, seccomp.NameWithConditions{Name: "mmap", Conditions: seccomp.ArgumentConditions{
			{Argument: 2, Operation: seccomp.Equal, Value: protection}, {Argument: 3, Operation: seccomp.Equal, Value: flags},
		}})
	}
	for _, fixed := range []uint64{0, unix.MAP_FIXED} { // libraries; never writable memory
		file(unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|fixed)
		file(unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_DENYWRITE|fixed)
	}
	file(unix.PROT_READ, unix.MAP_SHARED)        // tables of the C library, files that nobody can write to; never memory
	with("ioctl", 1, seccomp.Equal, unix.TCGETS) // to see whether it is a terminal
	with("ioctl", 1, seccomp.Equal, closeOnExec)
	return p, nil
}

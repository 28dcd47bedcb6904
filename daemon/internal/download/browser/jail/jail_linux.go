package jail

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	landlockcall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Exec jails the process, which then becomes the program; it returns only with an error. The
// process may then be partly jailed, and must end. The program is killed when the thread that
// started the process ends.
func Exec(o Options, program string, args, env []string) error {
	runtime.LockOSThread() // the program gets the rights of this thread
	defer runtime.UnlockOSThread()
	if err := limit(o); err != nil {
		return err
	}
	if err := dropRights(); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	// For this thread, which is the one that becomes the program.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if err := forbidFiles(o); err != nil {
		return err
	}
	if err := forbidCalls(); err != nil {
		return fmt.Errorf("%w: seccomp: %w", ErrUnsupported, err)
	}
	return fmt.Errorf("%s: %w", program, syscall.Exec(program, args, env))
}

// Available says why this machine can have no jail, or returns nil if it seems that it can.
func Available() error {
	if version, err := landlockcall.LandlockGetABIVersion(); err != nil || version < 1 {
		return fmt.Errorf("%w: the kernel has no Landlock: want Linux 5.13 or newer, with \"landlock\" among the names in /sys/kernel/security/lsm", ErrUnsupported)
	}
	return nil
}

// Executable reports whether memory can be writable and executable, as JavaScript compilers need
// it. A service manager may have forbidden that.
func Executable() bool {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return false
	}
	defer unix.Munmap(page) //nolint:errcheck // never fails for what was mapped
	return unix.Mprotect(page, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC) == nil
}

func limit(o Options) error {
	for _, r := range []struct {
		name     string
		resource int
		limit    uint64
	}{
		{"core", unix.RLIMIT_CORE, 0},
		{"memlock", unix.RLIMIT_MEMLOCK, 0},
		{"msgqueue", unix.RLIMIT_MSGQUEUE, 0},
		{"nofile", unix.RLIMIT_NOFILE, 4096},
		{"fsize", unix.RLIMIT_FSIZE, uint64(o.FileSize)},
		{"data", unix.RLIMIT_DATA, uint64(o.Memory)},
	} {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(r.resource, &now); err != nil {
			return fmt.Errorf("limit %s: %w", r.name, err)
		}
		limit := min(r.limit, now.Max)
		// From package syscall, so that the runtime does not restore its own limit of files.
		if err := syscall.Setrlimit(r.resource, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("limit %s: %w", r.name, err)
		}
	}
	return nil
}

// dropRights drops what sets root apart from other users, so that the program has no capability.
func dropRights() error {
	if os.Geteuid() != 0 {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	for c := range uintptr(64) {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: the kernel lacks it
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	none := [2]unix.CapUserData{}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// forbidFiles takes away all files but those of the options, TCP, and signals to other processes.
func forbidFiles(o Options) error {
	if err := Available(); err != nil {
		return err
	}
	rules := []landlock.Rule{landlock.RWDirs(o.Private).WithRefer()}
	add := func(paths []string, run bool) error {
		for _, path := range paths {
			info, err := os.Stat(path)
			switch {
			case errors.Is(err, os.ErrNotExist):
				continue
			case err != nil:
				return err
			case info.IsDir() && run:
				rules = append(rules, landlock.RODirs(path))
			case info.IsDir():
				rules = append(rules, landlock.PathAccess(readFiles|readFolders, path))
			case path == os.DevNull:
				rules = append(rules, landlock.RWFiles(path))
			case run:
				rules = append(rules, landlock.ROFiles(path))
			default:
				rules = append(rules, landlock.PathAccess(readFiles, path))
			}
		}
		return nil
	}
	if err := errors.Join(add(o.ReadOnly, true), add(o.ReadOne, false)); err != nil {
		return err
	}
	if err := landlock.V7.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("%w: Landlock: %w", ErrUnsupported, err)
	}
	return nil
}

const (
	readFiles   = landlock.AccessFSSet(landlockcall.AccessFSReadFile)
	readFolders = landlock.AccessFSSet(landlockcall.AccessFSReadDir)
)

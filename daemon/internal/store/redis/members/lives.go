package members

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// A daemon that is killed cannot sign off, and the others wait for it as for one that is
// away. The one that is started in its place knows better: each daemon holds a lock in its
// data_dir for as long as its process lives, and keeps there the names under which it and
// those before it were members. The holder of the lock knows that all of them are dead.
//
// This is only claimed where it is certain: of names that were written under the same lock
// file, by its inode, in the same boot of the machine. A data_dir that was copied, or is of
// a machine that was cloned, has another; what it names may live elsewhere.
const (
	livesLock = "redis.lock"
	livesFile = "redis.lives"
	// mostLives bounds the file. Names stay in it: an older file of Redis may bring them back.
	mostLives = 32
)

// livesJSON is the file.
type livesJSON struct {
	Boot  string   `json:"boot"` // of the machine
	Lock  string   `json:"lock"` // the lock file
	Lives []string `json:"lives"`
}

// takeLives locks dir, puts self into its file, and returns who has held the lock before
// and is dead. A *disk.InUseError says that another process holds it.
func takeLives(dir, self string) (lock *disk.Lock, dead []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	if lock, err = disk.AcquireLock(filepath.Join(dir, livesLock)); err != nil {
		return nil, nil, err
	}
	now := livesJSON{Boot: bootID(), Lock: lock.ID()}
	path := filepath.Join(dir, livesFile)
	var was livesJSON
	text, err := os.ReadFile(path)
	if err == nil && json.Unmarshal(text, &was) == nil && was.Boot == now.Boot && was.Lock == now.Lock && now.Boot != "" && now.Lock != "" {
		dead = slices.DeleteFunc(was.Lives, func(name string) bool { return name == self })
	}
	dead = dead[max(0, len(dead)-mostLives+1):]
	now.Lives = append(slices.Clone(dead), self)
	if text, err = json.Marshal(now); err == nil {
		err = disk.FS{}.WriteFile("lives", path, func(f *disk.File) error { return f.WriteAt("lives-write", append(text, '\n'), 0) })
	}
	return lock, dead, err
}

// HoldLives takes the lock, if it is free, and notes whom that proves dead.
func (m *Members) HoldLives() {
	if m.dir == "" || m.lives != nil {
		return
	}
	lock, dead, err := takeLives(m.dir, m.Self)
	var inUse *disk.InUseError
	if m.lives = lock; err != nil && !errors.As(err, &inUse) && !m.claimFailed {
		m.claimFailed = true
		m.log.Info("if this daemon is killed, the others wait some seconds for it: the file that shows that it is dead cannot be written in data_dir", "err", err)
	}
	m.markDead(dead)
}

// releaseLives gives the lock back: the name in its file is that of a dead daemon from now on.
func (m *Members) releaseLives() error {
	if m.lives == nil {
		return nil
	}
	return m.lives.Release()
}

// bootID is new whenever the machine is started; "" where the system has none.
func bootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}

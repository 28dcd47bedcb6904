//go:build !unix

package logs

import "os"

// ToJournal is false on systems without systemd.
func ToJournal(*os.File) bool { return false }

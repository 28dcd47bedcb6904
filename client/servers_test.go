package client

import (
	"strings"
	"testing"
)

// An address that cannot be used may have a password in it, which is not shown.
func TestAddressesAreShownWithoutPasswords(t *testing.T) {
	for _, address := range []string{
		"http://me:s3c%zzr3t@h:1", "http://me:s3c/r3t@h:1", "me:s3c r3t@h", "ftp://me:s3cr3t@h", "http://me:s3cr3t@h:0", "http://me:s3cr3t@h/?x",
		"http://me:s3cr3t@/", "http://me:s3cr3t@h:1,http://me:s3cr3t@h:1",
	} {
		if _, err := New(address); err == nil || strings.Contains(err.Error(), "s3c") || strings.Contains(err.Error(), "r3t") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

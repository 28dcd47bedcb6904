package provision

import (
	"path/filepath"
	"testing"
)

// The name of a bundle in an inventory that is in the place of ours.
func TestBundleAsTheInventoryNamesIt(t *testing.T) {
	t.Parallel()
	toolkit, _ := opened(t, "hosts: [{name: a, address: 10.0.0.1}]\n", nil, nil)
	root, err := filepath.Abs(toolkit.o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		filepath.Join(root, "bundle"):            "../bundle",
		filepath.Join(root, "configs", "bundle"): "bundle",
		filepath.Dir(root):                       filepath.ToSlash(filepath.Dir(root)),
	} {
		if got := toolkit.fromInventory(dir); got != want {
			t.Errorf("%s: got %s, want %s", dir, got, want)
		}
	}
}

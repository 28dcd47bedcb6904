package disk

// Op is one operation of an FS, for FS.Record.
type Op struct {
	Kind  OpKind
	Label string
	Path  string // what it works on; for a rename, the new path
	From  string // OpRename: the old path
	File  *File  // OpOpen, OpWrite, OpTruncate, OpSync: the open file, whatever its name is by now
	Flag  int    // OpOpen: as for os.OpenFile
	Data  []byte // OpWrite: valid until the operation returns
	Off   int64  // OpWrite: where; OpTruncate: the new size
}

// OpKind is what an Op does.
type OpKind int

// The operations.
const (
	OpOpen OpKind = iota
	OpWrite
	OpTruncate
	OpSync // of a file
	OpRename
	OpRemove
	OpRemoveAll
	OpMkdir
	OpSyncDir
)

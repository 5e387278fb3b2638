//! Rules about the file as text: `E01…`.

use super::rules;

rules! {
    MISSING "E0101" "file-missing" Error
        "there is no such file"
        why "A file was named that does not exist. Without `--file`, a missing `cluster.yaml` is no mistake: the built-in default cluster is taken."
        do "write one with `mullion init`, or name another with `--file`";
    NOT_A_FILE "E0102" "not-a-file" Error
        "this is not a file"
        why "A folder or a device was named where a file is wanted."
        do "name the file inside it: `--file FOLDER/cluster.yaml`";
    NOT_UTF8 "E0103" "not-utf8" Error
        "the file is not UTF-8 text"
        why "YAML is read as UTF-8. Windows editors may save UTF-16; PowerShell 5.1 does so by default."
        do "save the file as UTF-8 without a byte order mark";
    TOO_LARGE "E0104" "file-too-large" Error
        "the file is too large"
        why "A cluster file is a few lines. The limit keeps a file that was named by mistake, such as a disk image, from being read."
        do "check that the right file was named";
    TOO_DEEP "E0105" "nested-too-deep" Error
        "values are nested too deep"
        why "No value of a cluster file is more than a few levels deep. The limit keeps a hostile file from using up time and memory."
        do "check the brackets near this place"
        e.g. "machines: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n";
    SYNTAX "E0106" "syntax" Error
        "not valid YAML"
        why "The text does not follow YAML's grammar, so nothing after this place could be read."
        do "look at the quotes, brackets and colons just before this place"
        e.g. "machines: {linux: 1, windows: 1\n";
    TAB "E0107" "tab" Error
        "a tab stands where YAML wants blanks"
        why "YAML allows no tabs in indentation, because editors show them in different widths."
        do "indent with blanks"
        e.g. "machines:\n\tlinux: 1\n";
    ANCHOR "E0108" "anchor" Error
        "anchors and aliases are not read"
        why "An alias hides what a machine will be, and nested aliases can make a small file huge. A group with a count says the same more plainly."
        do "write the value out"
        e.g. "machines: {linux: &one 1, windows: *one}\n";
    SEVERAL_DOCUMENTS "E0109" "several-documents" Error
        "the file holds more than one document"
        why "One file describes one cluster. What stands after `---` would be silently lost by most readers, so it is refused."
        do "put each cluster into a file of its own"
        e.g. "machines: {linux: 1}\n---\nmachines: {linux: 2}\n";
    DUPLICATE_KEY "E0110" "duplicate-key" Error
        "a key is given twice"
        why "YAML calls it an error, and readers differ in which of the two they take."
        do "remove one of the two"
        e.g. "machines: {linux: 1}\nnetwork:\n  cni: flannel\n  cni: none\n";
    EMPTY "E0111" "empty-file" Error
        "the file says nothing"
        why "An empty file is more often an accident than a wish for the default cluster."
        do "write at least `machines: {linux: 1, windows: 1}`, or remove the file to take the default cluster"
        e.g. "# nothing but a comment\n";
    TAG "E0112" "tag" Error
        "tags are not read"
        why "A tag changes a value's type behind the reader's back; the file's own types decide instead."
        do "remove the tag"
        e.g. "metadata: {name: !!str demo}\nmachines: {linux: 1}\n";
    UNREADABLE "E0113" "unreadable" Error
        "the file cannot be read"
        why "The system refused to hand the file over."
        do "look at its permissions with `ls -l`";
}

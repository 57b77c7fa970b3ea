#!/usr/bin/env bash
# Boots the image of a disc in Bochs, whose processors have PCIDs. The build tool starts it in the place of QEMU:
# `-drive file=IMAGE,... CPUS`. It prints the serial line and ends after the kernel's last line, since ostd cannot turn
# this machine off.
set -euo pipefail

image=
for argument; do
    case $argument in
    file=*) image=${argument#file=} image=${image%%,*} ;;
    esac
    cpus=$argument
done
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT

cat >"$folder/bochsrc" <<END
display_library: rfb, options="timeout=0"
cpu: model=corei7_haswell_4770, count=$cpus, ips=100000000, ignore_bad_msrs=1
memory: guest=1024, host=1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path="$image", status=inserted
boot: cdrom
clock: sync=none
com1: enabled=1, mode=file, dev="$folder/serial"
log: $folder/log
panic: action=fatal
END

# Debian's Bochs is built with its debugger, which waits for a command. Of its displays only that for remote viewers needs
# no terminal that is read.
touch "$folder/serial"
bochs -f "$folder/bochsrc" < <(echo continue && exec sleep infinity) &>"$folder/debugger" &
while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in
    *"All crates tested."* | *"conformance: end"* | *"Printing stack trace"*) break ;;
    esac
done < <(tail -n +1 -f --pid=$! "$folder/serial")

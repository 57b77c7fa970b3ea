//! The programs' image: one ELF segment, kept in a file of the memory manager and mapped into every process.

use ceasefire_kernel_abi::{Error, IMAGE};
use ceasefire_memory::{ObjectId, Pages, Placement, SpaceHandle, PAGE_BYTES};
use elf::abi::PT_LOAD;
use elf::endian::LittleEndian;
use elf::ElfBytes;
use spin::Once;

use crate::failure::refuse;
use crate::manager::{memory, Kernel};

/// The image, once it is loaded.
struct Image {
    file: ObjectId,
    pages: u64,
    entry: u64,
}

static IMAGE_FILE: Once<Image> = Once::new();

/// Copies the segment of the ELF file `bytes` into a file.
pub(crate) fn load(bytes: &[u8]) {
    let image =
        read(bytes).unwrap_or_else(|why| refuse(format_args!("the programs' image (-initrd): {why}")));
    IMAGE_FILE.call_once(|| image);
}

fn read(bytes: &[u8]) -> Result<Image, &'static str> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(bytes).map_err(|_| "not an ELF file")?;
    let mut segments = elf.segments().into_iter().flatten().filter(|segment| segment.p_type == PT_LOAD);
    let (Some(segment), None) = (segments.next(), segments.next()) else {
        return Err("it must have one segment");
    };
    if segment.p_vaddr != IMAGE {
        return Err("it is linked for another address");
    }
    let data = elf.segment_data(&segment).map_err(|_| "the segment is cut off")?;
    let pages = segment.p_memsz.div_ceil(PAGE_BYTES);
    let file = memory().create_file(pages as u32).map_err(|_| "too many files")?;
    memory().write(file, 0, data).map_err(|_| "it is larger than the memory")?;
    Ok(Image { file, pages, entry: elf.ehdr.e_entry })
}

/// Maps the image into an empty space. Returns its entry point.
pub(crate) fn map(space: &SpaceHandle<Kernel>) -> Result<u64, Error> {
    let image = IMAGE_FILE.get().ok_or(Error::Invalid)?;
    let pages = Pages::new(image.pages);
    let start = memory().map_private(space, image.file, 0, pages).map_err(|_| Error::NoMemory)?;
    if start != IMAGE {
        memory().remap(space, start, pages, pages, Placement::At(IMAGE)).map_err(|_| Error::NoMemory)?;
    }
    Ok(image.entry)
}
